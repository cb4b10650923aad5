// SPDX-License-Identifier: Apache-2.0
#include "server/step_ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace weir {

StepLedger::StepLedger(absl::Span<const GroupPlan> groups, uint32_t sync_group)
    : sync_group_(sync_group) {
  for (const GroupPlan& group : groups) {
    Group& own = groups_.emplace_back();
    own.name = group.name;
    own.chunks = group.chunks;
  }
}

void StepLedger::Resume(absl::Span<const uint64_t> group_steps, uint64_t step) {
  for (size_t g = 0; g < groups_.size(); ++g) {
    groups_[g].next = g < group_steps.size() ? group_steps[g] : 0;
    groups_[g].steps_closed = step;
    groups_[g].open = false;
    groups_[g].closed_chunks = 0;
    groups_[g].may_follow = false;
    groups_[g].adrift = false;
  }
  steps_begun_ = step;
}

absl::StatusOr<bool> StepLedger::Admits(const PushHeader& push) const {
  const Group& group = groups_[push.group];
  if (push.group_step < group.next) {
    return absl::FailedPreconditionError(absl::StrCat("group step ", push.group_step, " of '",
                                                      group.name, "' is closed; the next is ",
                                                      group.next));
  }
  if (push.group_step > group.next) return group.adrift;
  if (!group.open) return true;
  if (group.step != push.step) {
    return absl::InvalidArgumentError(
        absl::StrCat("group step ", push.group_step, " of '", group.name, "' belongs to step ",
                     group.step, " for other workers, to step ", push.step, " for this one"));
  }
  if (group.rate_scale != push.rate_scale) {
    return absl::InvalidArgumentError(
        absl::StrCat("rate_scale is ", push.rate_scale, ", but ", group.rate_scale,
                     " for other workers in group step ", push.group_step, " of '", group.name,
                     "'; it must be equal across a sync step"));
  }
  return true;
}

bool StepLedger::Open(const PushHeader& push) {
  Group& group = groups_[push.group];
  if (group.open) return false;
  group.open = true;
  several_in_a_step_ |= group.steps_closed == push.step + 1;
  group.next = push.group_step;
  group.step = push.step;
  group.rate_scale = push.rate_scale;
  group.may_follow = push.may_update_again;
  steps_begun_ = std::max(steps_begun_, push.step + 1);
  return std::exchange(group.adrift, false);
}

std::vector<uint32_t> StepLedger::Abandon(uint64_t step) {
  std::vector<uint32_t> abandoned;
  for (uint32_t g = 1; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    if (group.steps_closed >= step || (group.open && group.step >= step)) continue;
    group.open = false;
    group.closed_chunks = 0;
    group.steps_closed = step;
    group.adrift = true;
    abandoned.push_back(g);
  }
  steps_begun_ = std::max(steps_begun_, step);
  return abandoned;
}

bool StepLedger::CloseChunks(uint32_t group_index, uint64_t chunks) {
  Group& group = groups_[group_index];
  if (!group.open) return false;
  group.closed_chunks += chunks;
  if (group.closed_chunks < group.chunks) return false;
  group.closed_chunks = 0;
  group.open = false;
  group.steps_closed = group.step + 1;
  ++group.next;
  return true;
}

void StepLedger::Reach(WorkerId worker, uint64_t step) {
  uint64_t& reached = reached_[worker];
  reached = std::max(reached, step);
}

void StepLedger::Forget(WorkerId worker) {
  reached_.erase(worker);
}

std::vector<uint64_t> StepLedger::next_group_steps() const {
  std::vector<uint64_t> steps;
  for (const Group& group : groups_) steps.push_back(group.next);
  return steps;
}

bool StepLedger::IsBehind(uint64_t step) const {
  return std::any_of(groups_.begin() + 1, groups_.end(), [&](const Group& group) {
    return group.chunks > 0 && group.steps_closed < step;
  });
}

// Of the step before: its workers do not know yet whether they update a group in it again.
bool StepLedger::MoreMayCome(uint64_t step) const {
  return std::any_of(groups_.begin() + 1, groups_.end(), [&](const Group& group) {
    return group.chunks > 0 && group.may_follow && group.steps_closed == step;
  });
}

uint64_t StepLedger::steps_closed() const {
  uint64_t closed = 0;
  for (const Group& group : groups_) closed = std::max(closed, group.steps_closed);
  return closed;
}

absl::optional<StepLedger::OpenStep> StepLedger::OpenBelow(uint64_t step) const {
  absl::optional<OpenStep> lowest;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    if (!group.open || group.step >= step) continue;
    if (lowest.has_value() && lowest->step <= group.step) continue;
    lowest =
        OpenStep{.group = static_cast<uint32_t>(g), .group_step = group.next, .step = group.step};
  }
  return lowest;
}

bool StepLedger::AllClosedBelow(uint64_t step, const MemberSet& members) const {
  if (OpenBelow(step).has_value()) return false;
  const bool shown = !IsBehind(step) && !several_in_a_step_ && !MoreMayCome(step);
  return shown || Behind(step, members).empty();
}

std::vector<MemberInfo> StepLedger::Behind(uint64_t step, const MemberSet& members) const {
  std::vector<MemberInfo> behind;
  for (const MemberInfo& member : members.by_rank()) {
    if (member.sync_group != sync_group_ || member.first_step >= step) continue;
    const auto reached = reached_.find(member.worker);
    if (reached == reached_.end() || reached->second < step) behind.push_back(member);
  }
  return behind;
}

}  // namespace weir
