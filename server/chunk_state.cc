// SPDX-License-Identifier: Apache-2.0
// Chunks of state variables: the latest value of each worker, and their aggregate.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/chunk.h"
#include "server/state_aggregation.h"

namespace weir {

absl::StatusOr<ChunkOutcome> Chunk::WriteState(const PushHeader& push, const ChunkValues& values,
                                               SequenceTracker& tracker) {
  MutexLock lock(mutex_);
  ChunkOutcome outcome;
  outcome.repeated = tracker.Counted(push.sequence, index_);
  if (outcome.repeated) return outcome;
  if (values.payload != nullptr) {
    BufferRef copy = traits_.pool->Allocate(bytes());
    if (!copy) return absl::ResourceExhaustedError("the system has no memory for state");
    const size_t element_bytes = traits_.variable->element_bytes;
    ForEachRun(*values.payload, values.offset, elements_, element_bytes,
               [&](const std::byte* data, size_t first, size_t count) {
                 std::memcpy(copy.mutable_data() + first * element_bytes, data,
                             count * element_bytes);
               });
    std::erase_if(state_, [&](const StateEntry& entry) { return entry.worker == push.worker; });
    state_.push_back({.worker = push.worker, .weight = push.weight, .values = std::move(copy)});
    WEIR_RETURN_IF_ERROR(Aggregate(*traits_.members->Get(), push.worker));
  }
  examples_ += push.examples;
  outcome.completes = tracker.Count(push.sequence, index_);
  return outcome;
}

// The writer has just been checked to be a member; should it have left since, its value counts this
// once.
absl::Status Chunk::Aggregate(const MemberSet& members, WorkerId last) {
  std::erase_if(state_, [&](const StateEntry& entry) {
    return entry.worker != last && members.Find(entry.worker) == nullptr;
  });
  const auto rank = [&](const StateEntry& entry) {
    const MemberInfo* const member = members.Find(entry.worker);
    return member == nullptr ? UINT32_MAX : member->rank;
  };
  std::stable_sort(state_.begin(), state_.end(),
                   [&](const StateEntry& a, const StateEntry& b) { return rank(a) < rank(b); });
  std::vector<StateValue> by_rank;
  size_t last_index = 0;
  for (const StateEntry& entry : state_) {
    if (entry.worker == last) last_index = by_rank.size();
    by_rank.push_back({.values = entry.values.data(), .weight = entry.weight});
  }
  BufferRef fresh = traits_.pool->Allocate(bytes());
  if (!fresh) return absl::ResourceExhaustedError("the system has no memory for state");
  AggregateState(traits_.variable->aggregation, traits_.variable->dtype, by_rank, last_index,
                 elements_, fresh.mutable_data());
  weights_ = std::move(fresh);
  ++version_;
  return absl::OkStatus();
}

}  // namespace weir
