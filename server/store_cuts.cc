// SPDX-License-Identifier: Apache-2.0
// Changes at a step boundary (sync), cuts of checkpoints, snapshots.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "rpc/protocol.h"
#include "server/parameter_store.h"

namespace weir {
namespace {

// How long a sync cut is kept for the SavePart that asks for it: it costs memory.
constexpr absl::Duration kKeepTime = absl::Minutes(1);

absl::Status NoSuchCut(uint64_t cut) {
  return absl::AbortedError(
      absl::StrCat("cut ", cut, " is not to be had here; try again with a new one"));
}

}  // namespace

absl::StatusOr<v1::PrepareStepReply> ParameterStore::PrepareStep(
    const v1::PrepareStepRequest& request) {
  if (!plan_->stepped()) {
    return absl::FailedPreconditionError("steps are prepared in sync, and between sync groups");
  }
  v1::PrepareStepReply reply;
  StoreEffects effects;
  {
    MutexLock lock(mutex_);
    WEIR_RETURN_IF_ERROR(ended_);
    const uint64_t begun = LedgerOf(request.sync_group()).steps_begun();
    WEIR_ASSIGN_OR_RETURN(const bool fresh, gate_.Prepare(request, begun));
    reply.set_highest_open_step(std::max<uint64_t>(begun, 1) - 1);
    if (fresh) {
      options_.executor->RunAfter(kStepHoldTime,
                                  [weak = weak_from_this(), id = request.change_id()] {
                                    if (const auto store = weak.lock()) store->ExpireChange(id);
                                  });
      Advance(effects);  // it may take the place of an earlier one that held more
    }
  }
  RunEffects(effects);
  return reply;
}

void ParameterStore::ExpireChange(uint64_t change_id) {
  StoreEffects effects;
  {
    MutexLock lock(mutex_);
    if (!gate_.Expire(change_id)) return;
    Advance(effects);
  }
  RunEffects(effects);
}

absl::Status ParameterStore::CommitStep(const v1::CommitStepRequest& request) {
  StoreEffects effects;
  {
    MutexLock lock(mutex_);
    WEIR_RETURN_IF_ERROR(ended_);
    WEIR_RETURN_IF_ERROR(gate_.Commit(request));
    Advance(effects);
  }
  RunEffects(effects);
  return absl::OkStatus();
}

absl::Status ParameterStore::AbortStep(const v1::AbortStepRequest& request) {
  StoreEffects effects;
  {
    MutexLock lock(mutex_);
    if (!gate_.Abort(request.change_id())) return absl::OkStatus();
    if (waiting_cut_ != nullptr && plan_->sync()) {
      AnswerCut(NoSuchCut(waiting_cut_->cut), effects);
    }
    Advance(effects);
  }
  RunEffects(effects);
  return absl::OkStatus();
}

// Pushes of the change's step are held and all before it are closed, so that nothing of its sync
// group is being applied but state; when that is done too, the boundary is there.
void ParameterStore::TryChange(StoreEffects& effects) {
  if (!gate_.change().has_value() || !gate_.change()->committed) return;
  const uint32_t sync_group = gate_.change()->sync_group;
  if (applying_in_[sync_group] > 0) return;
  // A step that its last member has left half pushed closes no more.
  if (members_->first_steps().contains(sync_group) &&
      !LedgerOf(sync_group).AllClosedBelow(gate_.change()->step, *members_)) {
    return;
  }
  const StepGate::Change change = gate_.Take();
  if (change.cut != 0) {
    auto taken = std::make_unique<KeptCut>(KeptCut{change.cut, Snapshot(change.step)});
    // One that nobody has asked for goes without the lock, as it gives memory back.
    effects.replies.push_back([old = std::exchange(kept_cut_, nullptr)] {});
    if (waiting_cut_ != nullptr && waiting_cut_->cut == change.cut) {
      AnswerCut(std::move(taken->snapshot), effects);
    } else {
      kept_cut_ = std::move(taken);
      options_.executor->RunAfter(kKeepTime, [weak = weak_from_this(), cut = change.cut] {
        if (const auto store = weak.lock()) store->DropKeptCut(cut);
      });
    }
  }
  if (change.view.has_value()) SetView(*change.view, effects);
}

void ParameterStore::TakeCut(const CutRequest& request, absl::Time deadline, CutDone done) {
  StoreEffects effects;
  {
    MutexLock lock(mutex_);
    if (!ended_.ok()) {
      effects.replies.push_back(
          [done = std::move(done), why = ended_]() mutable { std::move(done)(why); });
    } else if (plan_->sync()) {
      TakeSyncCut(request, deadline, std::move(done), effects);
    } else {
      TakeAsyncCut(request, deadline, std::move(done), effects);
    }
  }
  RunEffects(effects);
}

void ParameterStore::TakeSyncCut(const CutRequest& request, absl::Time deadline, CutDone done,
                                 StoreEffects& effects) {
  if (waiting_cut_ != nullptr) AnswerCut(NoSuchCut(waiting_cut_->cut), effects);
  waiting_cut_ = std::make_unique<WaitingCut>(
      WaitingCut{.id = ++waiting_.last_id, .cut = request.cut, .done = std::move(done)});
  if (kept_cut_ != nullptr && kept_cut_->cut == request.cut) {
    AnswerCut(std::move(std::exchange(kept_cut_, nullptr)->snapshot), effects);
  } else if (gate_.change().has_value() && gate_.change()->committed &&
             gate_.change()->cut == request.cut) {
    AddDeadline(waiting_cut_->id, deadline);
  } else {
    AnswerCut(NoSuchCut(request.cut), effects);
  }
}

void ParameterStore::TakeAsyncCut(const CutRequest& request, absl::Time deadline, CutDone done,
                                  StoreEffects& effects) {
  if (!cut_gate_.IsOpen(request.cut)) {
    effects.replies.push_back(
        [done = std::move(done), cut = request.cut]() mutable { std::move(done)(NoSuchCut(cut)); });
    return;
  }
  if (waiting_cut_ != nullptr) AnswerCut(NoSuchCut(waiting_cut_->cut), effects);
  waiting_cut_ = std::make_unique<WaitingCut>(
      WaitingCut{.id = ++waiting_.last_id, .cut = request.cut, .done = std::move(done)});
  cut_gate_.Begin(request.cut, request.marks);
  AddDeadline(waiting_cut_->id, std::min(deadline, options_.clock->Now() + kStepHoldTime));
  Advance(effects);
}

void ParameterStore::TryAsyncCut(StoreEffects& effects) {
  if (!cut_gate_.under_way().has_value() || waiting_cut_ == nullptr || applying_ > 0) return;
  const absl::StatusOr<bool> reached = MarksAreReached();
  if (reached.ok() && !*reached) return;
  // What a sync group that is gone has left open closes no more.
  for (const auto& [sync_group, first_step] : members_->first_steps()) {
    if (LedgerOf(sync_group).OpenBelow(UINT64_MAX).has_value()) return;
  }
  const uint64_t step = *std::max_element(pushes_.begin(), pushes_.end());
  cut_gate_.Settle(*cut_gate_.under_way());
  if (reached.ok()) {
    AnswerCut(Snapshot(step), effects);
  } else {
    AnswerCut(reached.status(), effects);
  }
}

// Errors: Aborted - a worker has gone beyond its mark.
absl::StatusOr<bool> ParameterStore::MarksAreReached() {
  for (const auto& [mark, last_sequence] : cut_gate_.marks()) {
    const auto [worker, group] = mark;
    // The dead complete nothing any more, and an empty group is never pushed.
    if (members_->Find(worker) == nullptr || group >= plan_->groups().size() ||
        plan_->groups()[group].chunks == 0) {
      continue;
    }
    const auto tracker = trackers_.find(mark);
    const uint64_t complete = tracker == trackers_.end() ? 0 : tracker->second->complete();
    if (complete < last_sequence) return false;
    if (complete > last_sequence) {
      return absl::AbortedError(absl::StrCat("a push of worker ",
                                             absl::Hex(static_cast<uint64_t>(worker)),
                                             " after the cut came before it; try a new one"));
    }
  }
  return true;
}

void ParameterStore::AnswerCut(absl::StatusOr<StoreSnapshot> snapshot, StoreEffects& effects) {
  if (waiting_cut_ == nullptr) return;
  waiting_.deadlines.Remove(waiting_cut_->id);
  effects.replies.push_back(
      [waiting = std::move(waiting_cut_), snapshot = std::move(snapshot)]() mutable {
        std::move(waiting->done)(std::move(snapshot));
      });
}

// A cut that workers have marked, but that nobody comes to take, must not hold them for ever.
void ParameterStore::ArmCutTimer(uint64_t cut) {
  if (cut <= cut_timer_for_) return;
  cut_timer_for_ = cut;
  options_.executor->RunAfter(kStepHoldTime, [weak = weak_from_this(), cut] {
    if (const auto store = weak.lock()) store->GiveUpCut(cut);
  });
}

void ParameterStore::GiveUpCut(uint64_t cut) {
  StoreEffects effects;
  {
    MutexLock lock(mutex_);
    if (!cut_gate_.IsOpen(cut)) return;
    if (waiting_cut_ != nullptr && waiting_cut_->cut <= cut) {
      AnswerCut(NoSuchCut(waiting_cut_->cut), effects);
    }
    cut_gate_.Settle(cut);
    Advance(effects);
  }
  RunEffects(effects);
}

void ParameterStore::DropKeptCut(uint64_t cut) {
  std::unique_ptr<KeptCut> dropped;  // goes after the lock
  MutexLock lock(mutex_);
  if (kept_cut_ != nullptr && kept_cut_->cut == cut) dropped = std::move(kept_cut_);
}

// The one worker that brings values has left while it pushed them: the others have them, and one of
// them pushes those of the next step. Where nobody is left they are as good as any.
absl::Status ParameterStore::CheckNotOld(const StoreSnapshot& snapshot) const {
  if (members_->by_rank().empty()) return absl::OkStatus();
  for (const ShardSnapshot& shard : snapshot.shards) {
    if (std::none_of(shard.chunks.begin(), shard.chunks.end(),
                     [](const ChunkSnapshot& chunk) { return chunk.old; })) {
      continue;
    }
    return absl::UnavailableError(absl::StrCat(
        "'", plan_->Find(shard.shard.id)->variable->name, "' is of before step ", snapshot.step - 1,
        ", whose values were not pushed whole; it is to be had ", "after the next step"));
  }
  return absl::OkStatus();
}

absl::StatusOr<StoreSnapshot> ParameterStore::Snapshot(uint64_t step) {
  StoreSnapshot snapshot;
  WEIR_ASSIGN_OR_RETURN(snapshot.reservation,
                        options_.budget->Reserve("saving a checkpoint", plan_->saved_bytes()));
  snapshot.attempt = attempt_;
  snapshot.step = step;
  snapshot.group_steps = pushes_;
  for (size_t g = 1; g < pushes_.size() && plan_->sync(); ++g) {
    snapshot.group_steps[g] = LedgerOf(0).next_group_step(static_cast<uint32_t>(g));
  }
  for (const auto& [owner, tracker] : trackers_) {
    v1::SequenceMark& mark = snapshot.marks.emplace_back();
    mark.set_worker(static_cast<uint64_t>(owner.first));
    mark.set_group(owner.second);
    mark.set_sequence(tracker->complete());
  }
  snapshot.shards = chunks_.Snapshot();
  WEIR_RETURN_IF_ERROR(CheckNotOld(snapshot));
  for (size_t s = 0; s < snapshot.shards.size(); ++s) {
    if (plan_->shards()[s].variable->group == 0) continue;
    for (const ChunkSnapshot& chunk : snapshot.shards[s].chunks) {
      snapshot.examples = std::max(snapshot.examples, chunk.examples);
    }
  }
  return snapshot;
}

}  // namespace weir
