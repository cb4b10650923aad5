// SPDX-License-Identifier: Apache-2.0
// A store's life: views, its end, deadlines, what a restore loads.
#include "server/parameter_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "rpc/errors.h"

namespace weir {
namespace {

constexpr absl::Duration kMemoryRetry = absl::Milliseconds(100);

}  // namespace

absl::StatusOr<std::shared_ptr<ParameterStore>> ParameterStore::Create(Options options,
                                                                       const v1::JobView& view) {
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<const StorePlan> plan,
                        StorePlan::Create(view, options.server_incarnation));
  WEIR_ASSIGN_OR_RETURN(
      MemoryBudget::Reservation reservation,
      options.budget->Reserve(absl::StrCat("job '", view.name(), "'"), plan->planned_bytes()));
  std::shared_ptr<ParameterStore> store(
      new ParameterStore(std::move(options), view, std::move(plan), std::move(reservation)));
  store->ApplyView(view);
  return store;
}

ParameterStore::ParameterStore(Options options, const v1::JobView& view,
                               std::unique_ptr<const StorePlan> plan,
                               MemoryBudget::Reservation reservation)
    : options_(std::move(options)),
      run_id_(view.run_id()),
      attempt_(view.attempt()),
      shard_map_version_(view.shard_map().version()),
      plan_(std::move(plan)),
      alone_(view.spec().workers() == 1),
      chunks_(*plan_, *options_.pool),
      reservation_(std::move(reservation)),
      members_(chunks_.members().Get()),
      collectives_({.clock = options_.clock,
                    .executor = options_.executor,
                    .pool = options_.pool,
                    .budget = options_.budget,
                    .payload_bytes = options_.payload_bytes}),
      staleness_gate_(plan_->bounded_staleness(), plan_->groups()),
      waiting_(options_.credit_bytes) {
  const std::vector<uint64_t> group_steps(view.resume().group_steps().begin(),
                                          view.resume().group_steps().end());
  pushes_ = group_steps;
  pushes_.resize(plan_->groups().size());
  first_group_steps_ = group_steps;
  first_step_ = view.resume().step();
  global_step_ = view.resume().step();
  chunks_.StartAt(pushes_);
}

ParameterStore::~ParameterStore() = default;

void ParameterStore::ApplyView(const v1::JobView& view) {
  StoreEffects effects;
  {
    MutexLock lock(mutex_);
    if (!ended_.ok()) return;
    SetView(view, effects);
    Advance(effects);
  }
  RunEffects(effects);
}

void ParameterStore::SetView(const v1::JobView& view, StoreEffects& effects) {
  if (view.version() <= view_.version) return;
  view_.version = view.version();
  view_.state = view.state();
  view_.initialiser = static_cast<WorkerId>(view.initialiser());
  view_.resume = view.resume();
  view_.facts = {.run_id = run_id_,
                 .attempt = attempt_,
                 .generation = view.generation(),
                 .shard_map_version = shard_map_version_};
  const std::shared_ptr<const MemberSet> before =
      std::exchange(members_, std::make_shared<const MemberSet>(view.members()));
  // First the members, then the walk over the chunks: see CurrentMembers.
  chunks_.members().Set(members_);
  staleness_gate_.SetMembers(*members_);
  for (const MemberInfo& member : before->by_rank()) {
    if (members_->Find(member.worker) == nullptr) DropWorker(member.worker, effects);
  }
  if (plan_->stepped()) AbandonStepsOfNobody();
  collectives_.SetMembers(members_, view.generation(), effects.replies);
}

// Who would have run the steps before the members' first is gone, perhaps within a push that other
// servers or chunks have counted: that step counts here as far as it has come.
void ParameterStore::AbandonStepsOfNobody() {
  for (const auto& [sync_group, first_step] : members_->first_steps()) {
    StepLedger& ledger = LedgerOf(sync_group);
    for (const uint32_t group : ledger.Abandon(std::max(first_step, view_.resume.step()))) {
      chunks_.ResumeAt({sync_group, group, ledger.next_group_step(group)});
    }
  }
}

void ParameterStore::DropWorker(WorkerId worker, StoreEffects& effects) {
  effects.members_left = true;
  for (auto& [sync_group, ledger] : ledgers_) ledger.Forget(worker);
  NoteDeparture(worker);
  const absl::Status gone = NotAMember(worker, "its lease has ended, or it has left");
  for (auto it = waiting_.held.by_id().begin(); it != waiting_.held.by_id().end();) {
    const uint64_t id = it->first;
    const bool own = it->second->header.worker == worker;
    ++it;
    if (own) effects.Fail(TakeHeld(id), gone);
  }
  std::vector<std::shared_ptr<ParkedReply>> parked;
  for (const auto& [id, reply] : waiting_.parked) {
    if (reply->header().worker == worker) parked.push_back(reply);
  }
  for (const std::shared_ptr<ParkedReply>& reply : parked) AnswerParked(*reply, gone, effects);
  for (auto it = waiting_.pulls.begin(); it != waiting_.pulls.end();) {
    if (it->second.worker != worker) {
      ++it;
      continue;
    }
    waiting_.deadlines.Remove(it->first);
    effects.replies.push_back(
        [done = std::move(it->second.done), gone]() mutable { std::move(done)(gone); });
    it = waiting_.pulls.erase(it);
  }
}

void ParameterStore::NoteDeparture(WorkerId worker) {
  for (uint32_t group = 0; group < plan_->groups().size(); ++group) {
    DepartureLog::Entry departure{
        .run_id = run_id_, .attempt = attempt_, .worker = worker, .group = group, .tracker = {}};
    const auto tracker = trackers_.find({worker, group});
    if (tracker != trackers_.end()) {
      departure.tracker = std::move(tracker->second);
      trackers_.erase(tracker);
    }
    // Where the server has nothing of the group, it has not missed a push either.
    if (plan_->groups()[group].chunks > 0) options_.departures->Add(std::move(departure));
  }
}

void ParameterStore::End(const absl::Status& why) {
  StoreEffects effects;
  {
    MutexLock lock(mutex_);
    if (!ended_.ok()) return;
    ended_ = why;
    while (!waiting_.held.empty())
      effects.Fail(TakeHeld(waiting_.held.by_id().begin()->first), why);
    while (!waiting_.parked.empty()) {
      const std::shared_ptr<ParkedReply> parked = waiting_.parked.begin()->second;
      AnswerParked(*parked, why, effects);
    }
    for (auto& [id, pull] : waiting_.pulls) {
      effects.replies.push_back(
          [done = std::move(pull.done), why]() mutable { std::move(done)(why); });
    }
    waiting_.pulls.clear();
    AnswerCut(why, effects);
    collectives_.End(why, effects.replies);
    // The snapshot that nobody asked for goes without the lock, as it gives memory back.
    effects.replies.push_back([kept = std::move(kept_cut_), all = std::move(reservation_)] {});
    Advance(effects);
  }
  RunEffects(effects);
}

void ParameterStore::WhenIdle(Task idle) {
  StoreEffects effects;
  {
    MutexLock lock(mutex_);
    idle_.push_back(std::move(idle));
    Advance(effects);
  }
  RunEffects(effects);
}

// What may happen now that something has changed.
void ParameterStore::Advance(StoreEffects& effects) {
  TryChange(effects);
  TryAsyncCut(effects);
  ReleasePulls(effects);
  if (!waiting_.held.empty()) ReadmitHeld(effects);
  if (applying_ > 0 || !waiting_.held.empty() || !waiting_.parked.empty()) return;
  const auto is_push = [](const auto& entry) { return entry.second.outcome.has_value(); };
  if (std::any_of(waiting_.pulls.begin(), waiting_.pulls.end(), is_push)) return;
  for (Task& idle : idle_) effects.replies.push_back(std::move(idle));
  idle_.clear();
}

// Without any lock. What is done may bring about more.
void ParameterStore::RunEffects(StoreEffects& effects) {
  while (true) {
    for (Task& reply : std::exchange(effects.replies, {})) std::move(reply)();
    if (std::exchange(effects.members_left, false)) {
      ReconsiderSteps(effects);
    } else if (!effects.ready.empty()) {
      std::unique_ptr<PushMessage> message = std::move(effects.ready.front());
      effects.ready.pop_front();
      ApplyMessage(std::move(message), effects);
    } else if (effects.replies.empty()) {
      return;
    }
  }
}

StepLedger& ParameterStore::LedgerOf(uint32_t sync_group) {
  const auto [found, is_new] = ledgers_.try_emplace(sync_group, plan_->groups(), sync_group);
  if (is_new) found->second.Resume(first_group_steps_, first_step_);
  return found->second;
}

// Between sync groups a step counts as one push.
void ParameterStore::NoteClosed(uint32_t sync_group, uint32_t group, const ClosedChunks& closed,
                                StoreEffects& effects) {
  StepLedger& ledger = LedgerOf(sync_group);
  if (closed.count > 0 && ledger.CloseChunks(group, closed.count)) {
    global_step_ = plan_->sync() ? ledger.steps_closed() : ++pushes_[group];
  }
  for (const std::shared_ptr<ParkedReply>& reply : closed.finished) {
    AnswerParked(*reply, absl::OkStatus(), effects);
  }
}

void ParameterStore::ReconsiderSteps(StoreEffects& effects) {
  std::map<uint32_t, ReconsideredSteps> steps;  // by sync group
  {
    MutexLock lock(mutex_);
    for (const auto& [sync_group, ledger] : ledgers_) steps[sync_group];
  }
  bool out_of_memory = false;
  for (auto& [sync_group, reconsidered] : steps) {
    reconsidered = chunks_.Reconsider(sync_group);
    out_of_memory = out_of_memory || reconsidered.out_of_memory;
  }
  // The step stays open meanwhile. Perhaps nobody repeats a push for it, as those that are counted
  // are acknowledged.
  if (out_of_memory) ReconsiderLater();
  MutexLock lock(mutex_);
  for (const auto& [sync_group, reconsidered] : steps) {
    for (size_t g = 0; g < reconsidered.closed.size(); ++g) {
      if (reconsidered.closed[g].count == 0) continue;
      NoteClosed(sync_group, static_cast<uint32_t>(g), reconsidered.closed[g], effects);
    }
  }
  Advance(effects);
}

// One timer at a time, however many members leave meanwhile.
void ParameterStore::ReconsiderLater() {
  if (retry_armed_.exchange(true)) return;
  options_.executor->RunAfter(kMemoryRetry, [weak = weak_from_this()] {
    const auto store = weak.lock();
    if (store == nullptr) return;
    store->retry_armed_ = false;
    {
      MutexLock lock(store->mutex_);
      if (!store->ended_.ok()) return;
    }
    StoreEffects effects;
    effects.members_left = true;
    store->RunEffects(effects);
  });
}

void ParameterStore::AddDeadline(uint64_t id, absl::Time deadline) {
  if (deadline == absl::InfiniteFuture()) return;
  if (waiting_.deadlines.Add(id, deadline)) ArmDeadlineTimer(deadline);
}

void ParameterStore::ArmDeadlineTimer(absl::Time due) {
  options_.executor->RunAfter(std::max(due - options_.clock->Now(), absl::ZeroDuration()),
                              [weak = weak_from_this(), due] {
                                if (const auto store = weak.lock()) store->OnDeadline(due);
                              });
}

void ParameterStore::OnDeadline(absl::Time armed_for) {
  StoreEffects effects;
  {
    MutexLock lock(mutex_);
    for (const uint64_t id : waiting_.deadlines.TakeDue(armed_for, options_.clock->Now())) {
      Expire(id, effects);
    }
    const absl::Time next = waiting_.deadlines.TakeNext();
    if (next < absl::InfiniteFuture()) ArmDeadlineTimer(next);
    Advance(effects);
  }
  RunEffects(effects);
}

void ParameterStore::Expire(uint64_t id, StoreEffects& effects) {
  if (const auto held = waiting_.held.by_id().find(id); held != waiting_.held.by_id().end()) {
    const absl::StatusOr<Wait> wait = WaitOf(*held->second);
    const std::string why = Describe(wait.value_or(Wait::kNothing), held->second->header);
    effects.Fail(TakeHeld(id), absl::DeadlineExceededError(why));
  } else if (const auto parked = waiting_.parked.find(id); parked != waiting_.parked.end()) {
    const std::shared_ptr<ParkedReply> reply = parked->second;
    AnswerParked(*reply, absl::DeadlineExceededError(MissingIn(reply->header().place())), effects);
  } else if (const auto pull = waiting_.pulls.find(id); pull != waiting_.pulls.end()) {
    const absl::Status late = absl::DeadlineExceededError(MissingBelow(pull->second));
    effects.replies.push_back(
        [done = std::move(pull->second.done), late]() mutable { std::move(done)(late); });
    waiting_.pulls.erase(pull);
  } else if (waiting_cut_ != nullptr && waiting_cut_->id == id) {
    const uint64_t cut = waiting_cut_->cut;
    AnswerCut(absl::AbortedError(
                  absl::StrCat("cut ", cut, " was not complete in time; try again with a new one")),
              effects);
    cut_gate_.Settle(cut);
  }
}

absl::Status ParameterStore::LoadChunk(ShardId shard, uint64_t chunk, const SavedChunk& saved) {
  return chunks_.Load(shard, chunk, saved);
}

absl::Status ParameterStore::FinishRestore(absl::Span<const uint64_t> group_steps) {
  MutexLock lock(mutex_);
  WEIR_RETURN_IF_ERROR(ended_);
  if (!trackers_.empty()) {
    return absl::FailedPreconditionError("the attempt has taken pushes; it cannot be restored");
  }
  for (size_t g = 0; g < pushes_.size(); ++g) {
    pushes_[g] = g < group_steps.size() ? group_steps[g] : 0;
  }
  first_group_steps_.assign(group_steps.begin(), group_steps.end());
  first_step_ = view_.resume.step();
  for (auto& [sync_group, ledger] : ledgers_) ledger.Resume(first_group_steps_, first_step_);
  global_step_ = view_.resume.step();
  chunks_.StartAt(pushes_);
  restored_ = true;
  return absl::OkStatus();
}

}  // namespace weir
