// SPDX-License-Identifier: Apache-2.0
// Pulls, and the initial values that they wait for.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "rpc/errors.h"
#include "server/parameter_store.h"

namespace weir {

absl::Status ParameterStore::CheckContextNow(const v1::RequestContext& context) {
  MutexLock lock(mutex_);
  WEIR_RETURN_IF_ERROR(ended_);
  return CheckContext(context, view_.facts, *members_);
}

absl::Status ParameterStore::NoValuesYet(const VariablePlan& variable) {
  MutexLock lock(mutex_);
  if (view_.state == v1::JOB_STATE_RESTORING) {
    return NotInitialised(variable.name,
                          absl::StrCat("the restore of checkpoint ", view_.resume.checkpoint_id()));
  }
  const MemberInfo* const initialiser = members_->Find(view_.initialiser);
  return NotInitialised(variable.name, initialiser == nullptr
                                           ? "an initialiser that is not chosen yet"
                                           : NameOf(*initialiser));
}

absl::Status ParameterStore::CheckServing(absl::Span<const SegmentTarget> segments) {
  bool restoring = false;
  {
    MutexLock lock(mutex_);
    restoring = view_.state == v1::JOB_STATE_RESTORING && !restored_;
  }
  if (restoring && !segments.empty()) return NoValuesYet(*segments.front().shard->variable);
  const VariablePlan* const lacking = chunks_.WithoutValues(segments);
  return lacking == nullptr ? absl::OkStatus() : NoValuesYet(*lacking);
}

void ParameterStore::Pull(const v1::PullRequest& request, absl::Time deadline,
                          ParameterEndpoint::PullDone done) {
  const auto checked = [&]() -> absl::StatusOr<std::vector<SegmentTarget>> {
    WEIR_RETURN_IF_ERROR(CheckContextNow(request.context()));
    WEIR_ASSIGN_OR_RETURN(
        std::vector<SegmentTarget> segments,
        ResolveSegments(*plan_, request.segments(), Carrier::kReply, /*payload_bytes=*/0));
    WEIR_RETURN_IF_ERROR(CheckServing(segments));
    return segments;
  };
  absl::StatusOr<std::vector<SegmentTarget>> segments = checked();
  if (!segments.ok()) return std::move(done)(segments.status());
  // A reader of a job in sync groups is in step with none of them.
  const bool reader = static_cast<WorkerId>(request.context().worker()) == WorkerId::kReader;
  const bool waits =
      plan_->sync() || plan_->bounded_staleness() > 0 || (plan_->stepped() && !reader);
  if (!waits || request.step() == 0) return std::move(done)(ReadWeights(*segments));

  StoreEffects effects;
  {
    MutexLock lock(mutex_);
    const auto worker = static_cast<WorkerId>(request.context().worker());
    uint32_t sync_group = 0;
    if (const MemberInfo* const member = members_->Find(worker)) {
      sync_group = member->sync_group;
      staleness_gate_.Reach(worker, request.step());
      LedgerOf(sync_group).Reach(worker, request.step());
    }
    AddPull({.worker = worker,
             .sync_group = sync_group,
             .step = request.step(),
             .segments = *std::move(segments),
             .done = std::move(done)},
            deadline, effects);
    Advance(effects);
  }
  RunEffects(effects);
}

// Since its request was checked the attempt may have ended, or its worker have left; what they had
// left waiting was answered then.
void ParameterStore::AddPull(WaitingPull pull, absl::Time deadline, StoreEffects& effects) {
  absl::Status over = ended_;
  if (over.ok() && pull.worker != WorkerId::kReader && members_->Find(pull.worker) == nullptr) {
    over = NotAMember(pull.worker, "it has just left");
  }
  if (!over.ok()) {
    effects.replies.push_back(
        [done = std::move(pull.done), over]() mutable { std::move(done)(over); });
    return;
  }
  const uint64_t id = ++waiting_.last_id;
  waiting_.pulls[id] = std::move(pull);
  AddDeadline(id, deadline);
}

bool ParameterStore::MayPull(const WaitingPull& pull) {
  if (plan_->bounded_staleness() > 0) return staleness_gate_.Admits(pull.step);
  return LedgerOf(pull.sync_group).AllClosedBelow(pull.step, *members_);
}

void ParameterStore::ReleasePulls(StoreEffects& effects) {
  for (auto it = waiting_.pulls.begin(); it != waiting_.pulls.end();) {
    if (!MayPull(it->second)) {
      ++it;
      continue;
    }
    waiting_.deadlines.Remove(it->first);
    // Read now: what closes after the reply has been let go is not before its step.
    v1::PullReply facts;
    if (plan_->bounded_staleness() > 0) facts.set_slowest_step(staleness_gate_.slowest());
    if (plan_->stepped() && !it->second.outcome) {
      for (uint64_t steps : LedgerOf(it->second.sync_group).next_group_steps()) {
        facts.add_group_steps(steps);
      }
    }
    if (it->second.outcome) *facts.mutable_outcome() = *it->second.outcome;
    effects.replies.push_back([this, self = shared_from_this(), facts = std::move(facts),
                               pull = std::move(it->second)]() mutable {
      absl::StatusOr<PullResult> result = ReadWeights(pull.segments);
      if (result.ok()) result->header.MergeFrom(facts);
      std::move(pull.done)(std::move(result));
    });
    it = waiting_.pulls.erase(it);
  }
}

std::string ParameterStore::MissingBelow(const WaitingPull& pull) {
  const uint64_t step = pull.step;
  if (plan_->bounded_staleness() > 0) {
    const std::vector<MemberInfo> slower = staleness_gate_.WaitsFor(step);
    if (slower.empty()) return "the pull came too late";
    return absl::StrCat("step ", step, " waits for ", NamesOf(slower), ": the slowest has done ",
                        staleness_gate_.slowest(), " steps, and bounded_staleness is ",
                        plan_->bounded_staleness());
  }
  const StepLedger& ledger = LedgerOf(pull.sync_group);
  if (const auto open = ledger.OpenBelow(step)) {
    return MissingIn({pull.sync_group, open->group, open->group_step});
  }
  const std::vector<MemberInfo> behind = ledger.Behind(step, *members_);
  if (behind.empty()) return "the pull came too late";
  return absl::StrCat("the weights after step ", step - 1, " wait for ", NamesOf(behind));
}

absl::StatusOr<PullResult> ParameterStore::ReadWeights(absl::Span<const SegmentTarget> segments) {
  if (const VariablePlan* const lacking = chunks_.WithoutValues(segments)) {
    return NoValuesYet(*lacking);
  }
  const uint64_t global_step = global_step_;  // before the weights: these are not older
  PullResult result = chunks_.Read(segments);
  result.header.set_global_step(global_step);
  return result;
}

absl::Status ParameterStore::Assign(const v1::AssignRequest& request, const Payload& payload) {
  WEIR_RETURN_IF_ERROR(CheckContextNow(request.context()));
  WEIR_ASSIGN_OR_RETURN(
      const std::vector<SegmentTarget> segments,
      ResolveSegments(*plan_, request.segments(), Carrier::kRequest, payload.size()));
  uint64_t view_version = 0;
  {
    MutexLock lock(mutex_);
    view_version = view_.version;
    const auto worker = static_cast<WorkerId>(request.context().worker());
    if (worker == WorkerId::kReader || worker != view_.initialiser ||
        view_.state != v1::JOB_STATE_INITIALISING) {
      return absl::AbortedError(
          absl::StrCat("worker ", absl::Hex(request.context().worker(), absl::kZeroPad16),
                       " is not the one who assigns initial values now; refresh the view"));
    }
  }
  return chunks_.Assign(segments, payload, view_version);
}

}  // namespace weir
