// SPDX-License-Identifier: Apache-2.0
// A chunk's sync steps: contributions, closing, parked replies.
#include <algorithm>
#include <utility>

#include "common/status_macros.h"
#include "rpc/errors.h"
#include "server/chunk.h"

namespace weir {

const Chunk::GroupPlace* Chunk::FindPlace(uint32_t sync_group) const {
  for (const std::unique_ptr<GroupPlace>& place : places_) {
    if (place->sync_group == sync_group) return place.get();
  }
  return nullptr;
}

Chunk::GroupPlace& Chunk::PlaceOf(uint32_t sync_group) {
  for (const std::unique_ptr<GroupPlace>& place : places_) {
    if (place->sync_group == sync_group) return *place;
  }
  places_.push_back(std::make_unique<GroupPlace>(
      GroupPlace{.sync_group = sync_group,
                 .group_step = first_group_step_,
                 .accumulator = StepAccumulator({.pool = traits_.pool,
                                                 .dtype = traits_.variable->dtype,
                                                 .elements = elements_,
                                                 .deterministic = traits_.deterministic,
                                                 .sync_group = sync_group,
                                                 .quorum = traits_.quorum})}));
  return *places_.back();
}

void Chunk::ResumeAt(uint32_t sync_group, uint64_t group_step) {
  MutexLock lock(mutex_);
  std::erase_if(places_, [&](const std::unique_ptr<GroupPlace>& place) {
    return place->sync_group == sync_group;
  });
  PlaceOf(sync_group).group_step = group_step;
}

absl::StatusOr<ChunkOutcome> Chunk::Contribute(const PushHeader& push, const ChunkValues& values,
                                               SequenceTracker& tracker,
                                               const std::shared_ptr<ParkedReply>& reply,
                                               ClosedChunks& closed) {
  MutexLock lock(mutex_);
  ChunkOutcome outcome{.staleness = StalenessOf(values)};
  outcome.repeated = tracker.Counted(push.sequence, index_);
  const std::shared_ptr<const MemberSet> members = traits_.members->Get();
  GroupPlace& place = PlaceOf(push.sync_group);
  if (outcome.repeated) {
    if (push.group_step == place.group_step) {
      WEIR_RETURN_IF_ERROR(CloseOrPark(place, *members, reply, closed));
    }
    return outcome;
  }
  const MemberInfo* const member = members->Find(push.worker);
  if (push.group_step < place.group_step && member != nullptr && traits_.quorum > 0) {
    outcome.late = true;
    outcome.completes = tracker.Count(push.sequence, index_);
    return outcome;
  }
  if (push.group_step != place.group_step || member == nullptr) {
    return NotAMember(push.worker, "it left before its push had arrived");
  }
  place.step = push.step;
  place.rate_scale = push.rate_scale;
  StepAccumulator& accumulator = place.accumulator;
  if (accumulator.empty() && accumulator.WaitsOnlyFor(push.worker, *members, push.step)) {
    // Nobody else is waited for: straight from the message, without a sum.
    if (values.payload != nullptr) WEIR_RETURN_IF_ERROR(UpdateFrom(push, values));
    NoteStep(values.payload != nullptr);
    examples_ += push.examples;
    outcome.completes = tracker.Count(push.sequence, index_);
    ReleaseReplies(place, closed);
    return outcome;
  }
  WEIR_RETURN_IF_ERROR(accumulator.Add({.member = *member,
                                        .weight = push.weight,
                                        .examples = push.examples,
                                        .present = values.payload != nullptr},
                                       values));
  outcome.completes = tracker.Count(push.sequence, index_);
  WEIR_RETURN_IF_ERROR(CloseOrPark(place, *members, reply, closed));
  return outcome;
}

// A step that could not be closed for want of memory is tried again with every repetition.
absl::Status Chunk::CloseOrPark(GroupPlace& place, const MemberSet& members,
                                const std::shared_ptr<ParkedReply>& reply, ClosedChunks& closed) {
  if (place.accumulator.IsComplete(members, place.step)) return CloseStep(place, closed);
  Park(place, reply);
  return absl::OkStatus();
}

absl::Status Chunk::CloseStep(GroupPlace& place, ClosedChunks& closed) {
  Spare spare;
  if (place.accumulator.any_present()) {
    WEIR_ASSIGN_OR_RETURN(spare, PrepareUpdate());
  }
  const StepAccumulator::Sum sum = place.accumulator.Take();
  if (sum.values) {
    const UpdateRule& rule = *traits_.variable->rule;
    Update(place.rate_scale, sum.examples, sum.scale, std::move(spare),
           [&](const UpdateContext& context, const ChunkSpan& span) {
             rule.Apply(context, sum.values.data(), 0, elements_, span);
           });
  }
  NoteStep(static_cast<bool>(sum.values));
  examples_ += sum.examples;
  ReleaseReplies(place, closed);
  return absl::OkStatus();
}

void Chunk::NoteStep(bool updated) {
  old_ = !updated && traits_.variable->rule->takes_values();
}

void Chunk::ReleaseReplies(GroupPlace& place, ClosedChunks& closed) {
  ++place.group_step;
  ++closed.count;
  for (std::shared_ptr<ParkedReply>& reply : place.parked) {
    if (reply->Close()) closed.finished.push_back(std::move(reply));
  }
  place.parked.clear();
}

void Chunk::Park(GroupPlace& place, const std::shared_ptr<ParkedReply>& reply) {
  if (reply == nullptr) return;
  // Repetitions of a push that waits long would pile up.
  std::erase_if(place.parked,
                [](const std::shared_ptr<ParkedReply>& other) { return other->answered(); });
  reply->Open();
  place.parked.push_back(reply);
}

absl::Status Chunk::Reconsider(uint32_t sync_group, ClosedChunks& closed) {
  MutexLock lock(mutex_);
  if (FindPlace(sync_group) == nullptr) return absl::OkStatus();
  GroupPlace& place = PlaceOf(sync_group);
  if (!place.accumulator.IsComplete(*traits_.members->Get(), place.step)) return absl::OkStatus();
  return CloseStep(place, closed);
}

std::vector<MemberInfo> Chunk::Missing(uint32_t sync_group, uint64_t group_step) const {
  MutexLock lock(mutex_);
  const GroupPlace* const place = FindPlace(sync_group);
  if (place == nullptr || group_step != place->group_step || place->accumulator.empty()) return {};
  return place->accumulator.Missing(*traits_.members->Get(), place->step);
}

}  // namespace weir
