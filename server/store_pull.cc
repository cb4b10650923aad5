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
  return CheckContext(context, facts_, *members_);
}

absl::Status ParameterStore::NoValuesYet(const VariablePlan& variable) {
  MutexLock lock(mutex_);
  if (state_ == v1::JOB_STATE_RESTORING) {
    return NotInitialised(variable.name,
                          absl::StrCat("the restore of checkpoint ", resume_.checkpoint_id()));
  }
  const MemberInfo* const initialiser = members_->Find(initialiser_);
  return NotInitialised(variable.name, initialiser == nullptr
                                           ? "an initialiser that is not chosen yet"
                                           : NameOf(*initialiser));
}

absl::Status ParameterStore::CheckServing(absl::Span<const SegmentTarget> segments) {
  bool restoring = false;
  {
    MutexLock lock(mutex_);
    restoring = state_ == v1::JOB_STATE_RESTORING && !restored_;
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
  if (!plan_->sync() || request.step() == 0) return std::move(done)(ReadWeights(*segments));

  StoreEffects effects;
  {
    MutexLock lock(mutex_);
    const auto worker = static_cast<WorkerId>(request.context().worker());
    if (worker != WorkerId::kReader) ledger_.Reach(worker, request.step());
    if (!ended_.ok()) {
      effects.replies.push_back(
          [done = std::move(done), why = ended_]() mutable { std::move(done)(why); });
    } else {
      const uint64_t id = ++last_id_;
      pulls_[id] = {.worker = worker,
                    .step = request.step(),
                    .segments = *std::move(segments),
                    .done = std::move(done)};
      AddDeadline(id, deadline);
      Advance(effects);
    }
  }
  RunEffects(effects);
}

void ParameterStore::ReleasePulls(StoreEffects& effects) {
  for (auto it = pulls_.begin(); it != pulls_.end();) {
    if (!ledger_.AllClosedBelow(it->second.step, *members_)) {
      ++it;
      continue;
    }
    deadlines_.Remove(it->first);
    effects.replies.push_back(
        [this, self = shared_from_this(), segments = std::move(it->second.segments),
         done = std::move(it->second.done)]() mutable { std::move(done)(ReadWeights(segments)); });
    it = pulls_.erase(it);
  }
}

std::string ParameterStore::MissingBelow(uint64_t step) {
  if (const auto open = ledger_.OpenBelow(step)) return MissingIn(open->group, open->group_step);
  const std::vector<MemberInfo> behind = ledger_.Behind(step, *members_);
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
  {
    MutexLock lock(mutex_);
    const auto worker = static_cast<WorkerId>(request.context().worker());
    if (worker == WorkerId::kReader || worker != initialiser_ ||
        state_ != v1::JOB_STATE_INITIALISING) {
      return absl::AbortedError(
          absl::StrCat("worker ", absl::Hex(request.context().worker(), absl::kZeroPad16),
                       " is not the one who assigns initial values now; refresh the view"));
    }
  }
  return chunks_.Assign(segments, payload);
}

}  // namespace weir
