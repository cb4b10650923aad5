// SPDX-License-Identifier: Apache-2.0
// A chunk's sync steps: contributions, closing, parked replies.
#include <algorithm>
#include <utility>

#include "common/status_macros.h"
#include "rpc/errors.h"
#include "server/chunk.h"

namespace weir {

StepAccumulator& Chunk::Accumulator() {
  if (accumulator_ == nullptr) {
    accumulator_ = std::make_unique<StepAccumulator>(
        StepAccumulator::Options{.pool = traits_.pool,
                                 .dtype = traits_.variable->dtype,
                                 .elements = elements_,
                                 .deterministic = traits_.deterministic});
  }
  return *accumulator_;
}

absl::StatusOr<ChunkOutcome> Chunk::Contribute(const PushHeader& push, const ChunkValues& values,
                                               SequenceTracker& tracker,
                                               const std::shared_ptr<ParkedReply>& reply,
                                               ClosedChunks& closed) {
  MutexLock lock(mutex_);
  ChunkOutcome outcome;
  outcome.repeated = tracker.Counted(push.sequence, index_);
  const std::shared_ptr<const MemberSet> members = traits_.members->Get();
  if (outcome.repeated) {
    if (push.group_step == group_step_) WEIR_RETURN_IF_ERROR(CloseOrPark(*members, reply, closed));
    return outcome;
  }
  const MemberInfo* const member = members->Find(push.worker);
  if (push.group_step != group_step_ || member == nullptr) {
    return NotAMember(static_cast<uint64_t>(push.worker), "it left before its push had arrived");
  }
  step_ = push.step;
  rate_scale_ = push.rate_scale;
  StepAccumulator& accumulator = Accumulator();
  if (accumulator.empty() && accumulator.WaitsOnlyFor(push.worker, *members, push.step)) {
    // Nobody else is waited for: straight from the message, without a sum.
    if (values.payload != nullptr) WEIR_RETURN_IF_ERROR(UpdateFrom(push, values));
    examples_ += push.examples;
    outcome.completes = tracker.Count(push.sequence, index_);
    ReleaseReplies(closed);
    return outcome;
  }
  WEIR_RETURN_IF_ERROR(accumulator.Add({.member = *member,
                                        .weight = push.weight,
                                        .examples = push.examples,
                                        .present = values.payload != nullptr},
                                       values));
  outcome.completes = tracker.Count(push.sequence, index_);
  WEIR_RETURN_IF_ERROR(CloseOrPark(*members, reply, closed));
  return outcome;
}

// A step that could not be closed for want of memory is tried again with every repetition.
absl::Status Chunk::CloseOrPark(const MemberSet& members, const std::shared_ptr<ParkedReply>& reply,
                                ClosedChunks& closed) {
  if (Accumulator().IsComplete(members, step_)) return CloseStep(closed);
  Park(reply);
  return absl::OkStatus();
}

absl::Status Chunk::CloseStep(ClosedChunks& closed) {
  Spare spare;
  if (accumulator_->any_present()) {
    WEIR_ASSIGN_OR_RETURN(spare, PrepareUpdate());
  }
  const StepAccumulator::Sum sum = accumulator_->Take();
  if (sum.values) {
    const UpdateRule& rule = *traits_.variable->rule;
    Update(rate_scale_, sum.examples, sum.scale, std::move(spare),
           [&](const UpdateContext& context, const ChunkSpan& span) {
             rule.Apply(context, sum.values.data(), 0, elements_, span);
           });
  }
  examples_ += sum.examples;
  ReleaseReplies(closed);
  return absl::OkStatus();
}

void Chunk::ReleaseReplies(ClosedChunks& closed) {
  ++group_step_;
  ++closed.count;
  for (std::shared_ptr<ParkedReply>& reply : parked_) {
    if (reply->Close()) closed.finished.push_back(std::move(reply));
  }
  parked_.clear();
}

void Chunk::Park(const std::shared_ptr<ParkedReply>& reply) {
  if (reply == nullptr) return;
  // Repetitions of a push that waits long would pile up.
  std::erase_if(parked_,
                [](const std::shared_ptr<ParkedReply>& other) { return other->answered(); });
  reply->Open();
  parked_.push_back(reply);
}

absl::Status Chunk::Reconsider(ClosedChunks& closed) {
  MutexLock lock(mutex_);
  if (accumulator_ == nullptr || accumulator_->empty()) return absl::OkStatus();
  if (!accumulator_->IsComplete(*traits_.members->Get(), step_)) return absl::OkStatus();
  return CloseStep(closed);
}

std::vector<MemberInfo> Chunk::Missing(uint64_t group_step) const {
  MutexLock lock(mutex_);
  if (group_step != group_step_ || accumulator_ == nullptr || accumulator_->empty()) return {};
  return accumulator_->Missing(*traits_.members->Get(), step_);
}

}  // namespace weir
