// SPDX-License-Identifier: Apache-2.0
// Members of a job: who joins, leaves, and dies.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "coordinator/coordinated_job.h"
#include "coordinator/job_spec_check.h"
#include "coordinator/sync_groups.h"
#include "coordinator/turn_log.h"
#include "rpc/backoff.h"
#include "rpc/protocol.h"
#include "rpc/regime.h"

namespace weir {

namespace {

void InsertMember(v1::JobView& view, uint32_t rank, WorkerId worker, const MemberPlace& place) {
  v1::Member& member = *view.add_members();
  member.set_rank(rank);
  member.set_worker(static_cast<uint64_t>(worker));
  member.set_first_step(place.first_step);
  member.set_sync_group(place.sync_group);
  if (HasSyncGroups(view.spec())) member.set_stop_step(StopStepOf(view, place.sync_group));
  std::sort(view.mutable_members()->begin(), view.mutable_members()->end(),
            [](const v1::Member& a, const v1::Member& b) { return a.rank() < b.rank(); });
}

}  // namespace

absl::StatusOr<v1::RegisterReply> CoordinatedJob::Register(const v1::RegisterRequest& request,
                                                           Turn& turn) {
  const bool known = roster_.Find(WorkerId{request.worker()}) != nullptr;
  if (view_.stop() && !known) {
    const std::string stopping = absl::StrCat("job '", name(), "' is being stopped");
    // Saved: then it has ended, and can be resumed.
    return roster_.empty() ? absl::UnavailableError(stopping)
                           : absl::FailedPreconditionError(stopping);
  }
  const uint64_t slowest = roster_.lowest_step();  // of those before it
  WEIR_ASSIGN_OR_RETURN(
      const uint32_t rank,
      roster_.Add(WorkerId{request.worker()}, request.wanted_rank(), request.host(), turn.now()));
  v1::RegisterReply reply;
  reply.set_run_id(run_id());
  reply.set_rank(rank);
  reply.set_lease_ms(absl::ToInt64Milliseconds(context_.lease));
  reply.set_heartbeat_ms(absl::ToInt64Milliseconds(context_.heartbeat));
  reply.set_term(context_.term);
  if (known) return reply;
  if (orphaned_at_ != absl::InfiniteFuture()) ChangeView().clear_message();  // that it is one
  LogLater(turn, spdlog::level::info, "worker registers job={} rank={} worker={:016x} host={}",
           name(), rank, request.worker(), request.host());
  orphaned_at_ = absl::InfiniteFuture();
  Keep();
  const bool in_steps = IsSync(spec()) || HasSyncGroups(spec());
  if (view_.state() == v1::JOB_STATE_RUNNING && in_steps) {
    roster_.SetJoining(WorkerId{request.worker()});
    AdmitJoining(turn);
    return reply;
  }
  // Where it counts who is ahead of whom, a newcomer is not behind all others.
  const bool bounded = spec().regime().kind() == v1::REGIME_BOUNDED_STALENESS;
  AddMember(WorkerId{request.worker()},
            {.first_step = std::max(view_.resume().step(), bounded ? slowest : 0)});
  if (view_.state() == v1::JOB_STATE_INITIALISING) ElectInitialiser();
  if (view_.state() == v1::JOB_STATE_WAITING) TryStart(turn);
  return reply;
}

void CoordinatedJob::AddMember(WorkerId worker, const MemberPlace& place) {
  const Roster::Worker* found = roster_.Find(worker);
  if (found == nullptr) return;
  roster_.Admit(worker, place.first_step);
  InsertMember(ChangeView(), found->rank, worker, place);
  if (HasSyncGroups(spec()) && view_.state() != v1::JOB_STATE_RUNNING) {
    next_sync_group_ = AssignSyncGroups(view_);
  }
  last_generation_ = std::max(last_generation_, view_.generation()) + 1;
  view_.set_generation(last_generation_);
}

// In `sync` a new member counts from a step boundary that no server has passed, and at which all
// old members know of it: they divide the data by the view that they have. So it is
// within a sync group.
void CoordinatedJob::AdmitJoining(Turn& turn) {
  std::vector<WorkerId> joining = roster_.Joining();
  if (joining.empty() || change_ != nullptr || saver_.cutting() || turn.now() < admit_at_ ||
      view_.stop() || view_.state() != v1::JOB_STATE_RUNNING) {
    return;
  }
  uint32_t sync_group = 0;
  if (HasSyncGroups(spec())) {
    const absl::optional<uint32_t> with_room = BeginSyncGroups(joining);
    if (!with_room) return;
    sync_group = *with_room;
    joining.resize(1);  // the next one may be for another group
  }
  const bool had_members = SizeOfSyncGroup(view_, sync_group) > 0;
  StepChange::Options options;
  options.first_step = HighestStep(sync_group) + (had_members ? 1 : 0);
  options.sync_group = sync_group;
  options.deadline = turn.now() + kStepHoldTime;
  const auto place_at = [sync_group, had_members](uint64_t step) {
    return MemberPlace{had_members ? step + StepChange::kKnownAfter : step, sync_group};
  };
  options.view_at = [joining, place_at](CoordinatedJob& job, uint64_t step) {
    return job.ViewWith(joining, place_at(step));
  };
  StartChange(
      std::move(options),
      [joining, place_at](CoordinatedJob& job, Turn& later, const StepChange::Result& result) {
        job.OnAdmitted(joining, place_at(result.step), result, later);
      },
      turn);
}

// Where all groups are full, newcomers begin one of their own at once, as nobody is in step with
// them yet. Leaves those in `joining` that have to wait for the boundary of the group it returns.
absl::optional<uint32_t> CoordinatedJob::BeginSyncGroups(std::vector<WorkerId>& joining) {
  while (!joining.empty()) {
    const absl::optional<uint32_t> with_room = GroupWithRoom(view_);
    if (with_room) return with_room;
    AddMember(joining.front(), {view_.resume().step(), next_sync_group_++});
    Keep();
    joining.erase(joining.begin());
  }
  return absl::nullopt;
}

uint64_t CoordinatedJob::HighestStep(uint32_t sync_group) const {
  if (!HasSyncGroups(spec())) return roster_.highest_step();
  uint64_t highest = view_.resume().step();
  for (const v1::Member& member : view_.members()) {
    const Roster::Worker* worker = roster_.Find(WorkerId{member.worker()});
    if (member.sync_group() != sync_group || worker == nullptr) continue;
    highest = std::max(highest, Roster::StepOf(*worker));
  }
  return highest;
}

v1::JobView CoordinatedJob::ViewWith(const std::vector<WorkerId>& joining,
                                     const MemberPlace& place) {
  admitting_version_ = last_version_ = std::max(last_version_, view_.version()) + 1;
  admitting_generation_ = last_generation_ = std::max(last_generation_, view_.generation()) + 1;
  v1::JobView view = view_;
  view.set_version(admitting_version_);
  view.set_generation(admitting_generation_);
  for (const WorkerId id : joining) {
    const Roster::Worker* worker = roster_.Find(id);
    if (worker != nullptr) InsertMember(view, worker->rank, id, place);
  }
  return view;
}

void CoordinatedJob::OnAdmitted(const std::vector<WorkerId>& joining, const MemberPlace& place,
                                const StepChange::Result& result, Turn& turn) {
  // A view that was published meanwhile is newer, and without the newcomers.
  const bool undisturbed = last_version_ == admitting_version_ &&
                           std::all_of(joining.begin(), joining.end(),
                                       [&](WorkerId id) { return roster_.Find(id) != nullptr; });
  if (result.status.ok() && undisturbed) {
    for (const WorkerId id : joining) {
      roster_.Admit(id, place.first_step);
      InsertMember(ChangeView(), roster_.Find(id)->rank, id, place);
      roster_.Touch(id, turn.now());
      LogLater(turn, spdlog::level::info, "worker joins job={} worker={:016x} step={}", name(),
               static_cast<uint64_t>(id), result.step);
    }
    view_.set_generation(admitting_generation_);
    view_.clear_message();
    admit_failures_ = 0;
    return;
  }
  if (result.status.ok() || result.perhaps_committed) {
    // Undo it everywhere: a newer generation without the newcomers.
    last_generation_ = std::max(last_generation_, view_.generation()) + 1;
    ChangeView().set_generation(last_generation_);
  }
  if (!result.status.ok()) {
    LogLater(turn, spdlog::level::warn, "join put off job={}: {}", name(),
             std::string(result.status.message()));
  }
  admit_at_ =
      turn.now() + DelayAfter(++admit_failures_, absl::Milliseconds(200), absl::Seconds(10));
}

absl::StatusOr<v1::LeaveReply> CoordinatedJob::Leave(const v1::LeaveRequest& request, Turn& turn) {
  v1::LeaveReply reply;
  if (roster_.Find(WorkerId{request.worker()}) == nullptr) {
    const absl::Status status = roster_.Check(WorkerId{request.worker()});
    if (absl::IsNotFound(status)) return status;
    return reply;
  }
  if (request.has_progress() && request.attempt() == view_.attempt()) {
    TakeReport(WorkerId{request.worker()}, request.progress(), turn);
  }
  if (request.unless_last()) {
    // Of those who ask at once each hears that the others live.
    WEIR_RETURN_IF_ERROR(roster_.Heartbeat(WorkerId{request.worker()}, 0, turn.now()));
    WEIR_RETURN_IF_ERROR(roster_.CheckAnyOtherLives(WorkerId{request.worker()}, turn.now()));
    if (roster_.size() == 1) {
      reply.set_last_in_view(view_.version());
      return reply;
    }
  }
  const std::string why =
      request.finished() ? "it has finished" : absl::StrCat("it has given up: ", request.reason());
  RemoveWorker(WorkerId{request.worker()}, why, request.finished(), turn);
  AfterDeparture(why, turn);
  return reply;
}

void CoordinatedJob::RemoveWorker(WorkerId worker, const std::string& why, bool finished,
                                  Turn& turn) {
  LogLater(turn, spdlog::level::info, "worker goes job={} {} worker={:016x}: {}", name(),
           roster_.Describe(worker), static_cast<uint64_t>(worker), why);
  any_finished_ |= finished;
  // What a sync group holds stays with those who are left of it.
  if (ranges_ &&
      (!HasSyncGroups(spec()) || SizeOfSyncGroup(view_, SyncGroupOf(view_, worker)) == 1)) {
    // Of a job that is stopped, who goes has done its part, but not all that it holds.
    const bool used = finished && !view_.stop();
    used ? ranges_->Forget(HolderOf(worker)) : ranges_->Return(HolderOf(worker));
    KeepRanges();
  }
  v1::JobView& view = ChangeView();
  auto* members = view.mutable_members();
  members->erase(
      std::remove_if(members->begin(), members->end(),
                     [&](const v1::Member& member) { return WorkerId{member.worker()} == worker; }),
      members->end());
  last_generation_ = std::max(last_generation_, view.generation()) + 1;
  view.set_generation(last_generation_);
  roster_.Remove(worker, why);
  saver_.OnMemberGone(turn);
}

void CoordinatedJob::AfterDeparture(const std::string& why, Turn& turn) {
  Keep();
  if (!live()) return;
  if (view_.stop() && roster_.Members().empty()) {
    for (const WorkerId worker : roster_.Joining()) RemoveWorker(worker, why, false, turn);
  }
  if (!roster_.empty()) {
    if (view_.state() == v1::JOB_STATE_INITIALISING) ElectInitialiser();
    if (view_.state() == v1::JOB_STATE_WAITING) TryStart(turn);
    barriers_.Evaluate(roster_, turn);
    return;
  }
  barriers_.Evaluate(roster_, turn);
  if (view_.stop()) {
    TickOrphan(turn);
  } else if (any_finished_) {
    End(v1::JOB_STATE_FINISHED, "", turn);
  } else if (view_.shard_map().version() == 0) {
    End(v1::JOB_STATE_FAILED, absl::StrCat("every worker left before it began; the last: ", why),
        turn);
  } else {
    orphaned_at_ = turn.now();
    ChangeView().set_message(absl::StrCat("no worker is left; ends in ",
                                          absl::FormatDuration(OrphanTtl(spec())),
                                          " unless one joins. The last: ", why));
  }
}

void CoordinatedJob::ElectInitialiser() {
  const uint64_t lowest = view_.members().empty() ? 0 : view_.members(0).worker();
  if (view_.initialiser() == lowest && lowest != 0) return;
  ChangeView().set_initialiser(lowest);
  view_.set_message(lowest == 0 ? "waits for a worker that assigns the initial values"
                                : absl::StrCat(roster_.Describe(WorkerId{lowest}),
                                               " assigns the initial values"));
}

void CoordinatedJob::EndLeases(Turn& turn) {
  std::string why;
  for (const WorkerId worker : roster_.Expired(turn.now())) {
    why = absl::StrCat(roster_.Describe(worker), ": its lease of ",
                       absl::FormatDuration(context_.lease), " ended without a heartbeat");
    RemoveWorker(worker, why, false, turn);
  }
  // Programs that never report a step cannot be late with one, unless the job says so.
  const bool steps_tell =
      spec().step_timeout_ms() > 0 || roster_.highest_step() > view_.resume().step();
  if (view_.state() == v1::JOB_STATE_RUNNING && steps_tell) {
    for (const WorkerId worker : roster_.Stuck(turn.now(), StepTimeout(spec()))) {
      if (barriers_.IsWaiting(worker)) continue;
      why = absl::StrCat(roster_.Describe(worker), ": no progress for ",
                         absl::FormatDuration(StepTimeout(spec())));
      RemoveWorker(worker, why, false, turn);
    }
  }
  if (why.empty()) return;
  // Who has waited for the dead begins anew.
  for (const Roster::Worker* member : roster_.Members()) roster_.Touch(member->id, turn.now());
  AfterDeparture(why, turn);
}

void CoordinatedJob::Tick(Turn& turn) {
  if (!live()) return;
  EndLeases(turn);
  barriers_.Expire(roster_, turn);
  if (live()) TickOrphan(turn);
  if (live()) AdmitJoining(turn);
  if (live()) SettleStop(turn);
  if (live()) saver_.Tick(turn);
  if (live()) KeepProgress(turn);
}

bool CoordinatedJob::StartChange(StepChange::Options options, StepChange::Finished finished,
                                 Turn& turn) {
  if (change_ != nullptr) return false;
  options.id = ++last_change_;
  options.run_id = run_id();
  options.attempt = view_.attempt();
  options.servers = Holders();
  Keep();
  change_ = std::make_unique<StepChange>(context_, std::move(options), std::move(finished));
  change_->Start(turn);
  return true;
}

StepChange* CoordinatedJob::FindChange(uint64_t id) {
  return change_ != nullptr && change_->id() == id ? change_.get() : nullptr;
}

void CoordinatedJob::EndChange(Turn&) {
  change_.reset();
}

}  // namespace weir
