// SPDX-License-Identifier: Apache-2.0
#include "client/push_ledger.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace weir {

absl::StatusOr<uint64_t> PushLedger::Begin(const Push& push) {
  const uint32_t group = push.group;
  if (group >= groups_.size()) {
    return absl::FailedPreconditionError(
        absl::StrCat("group ", group, " has no pushes here; only members of a job push"));
  }
  constexpr size_t kMostUnderWay = 2;  // a server keeps so many open
  Group& state = groups_[group];
  // An attempt that is over stays so; other outcomes nobody knows.
  if (absl::IsAborted(state.failure)) return state.failure;
  if (!state.failure.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("push ", state.failed, " of group ", group,
                     " failed, and what of it was applied is unknown: ", state.failure.message()));
  }
  if (state.under_way == kMostUnderWay) {
    return absl::FailedPreconditionError(
        absl::StrCat("two pushes of group ", group, " are under way; wait for one first"));
  }
  ++state.under_way;
  ++state.begun;
  state.next_group_step = push.group_step + 1;
  open_.push_back({group, state.begun, consumed_});
  consumed_ = std::max(consumed_, push.consumed);
  if (group != 0) next_step_ = std::max(next_step_, push.step + 1);
  return state.begun;
}

void PushLedger::End(uint32_t group, uint64_t sequence, const absl::Status& status) {
  Group& state = groups_[group];
  --state.under_way;
  if (status.ok()) {
    open_.erase(std::remove_if(open_.begin(), open_.end(),
                               [&](const Open& open) {
                                 return open.group == group && open.sequence == sequence;
                               }),
                open_.end());
  } else if (state.failure.ok()) {
    state.failed = sequence;
    state.failure = status;
  }
}

uint64_t PushLedger::acknowledged() const {
  uint64_t acknowledged = consumed_;
  for (const Open& open : open_) acknowledged = std::min(acknowledged, open.consumed_before);
  return acknowledged;
}

std::optional<PushLedger::Cut> PushLedger::Mark(uint64_t cut) {
  if (cut <= cut_.cut) return std::nullopt;
  cut_.cut = cut;
  cut_.consumed = consumed_;
  cut_.next_step = next_step_;
  for (size_t group = 0; group < groups_.size(); ++group) {
    cut_.last_sequence[group] = groups_[group].begun;
    cut_.next_group_step[group] = groups_[group].next_group_step;
  }
  return cut_;
}

}  // namespace weir
