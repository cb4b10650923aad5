// SPDX-License-Identifier: Apache-2.0
#include "worker/client_updates.h"

#include <algorithm>

#include "common/status_macros.h"

namespace weir {

void ClientUpdates::StartFrom(absl::Span<const uint64_t> group_steps) {
  if (group_steps_.size() < group_steps.size()) group_steps_.resize(group_steps.size());
  for (size_t g = 0; g < group_steps.size(); ++g) {
    group_steps_[g] = std::max(group_steps_[g], group_steps[g]);
  }
}

void ClientUpdates::BeginStep(const StepPlace& place) {
  place_ = place;
  asked_.clear();
  made_.clear();
}

PushOptions ClientUpdates::NextOptions(uint32_t group) {
  if (group_steps_.size() <= group) group_steps_.resize(group + 1);
  PushOptions options;
  options.group = group;
  options.step = place_.step;
  options.group_step = group_steps_[group]++;
  options.timeout = timeout_;
  return options;
}

bool ClientUpdates::IsMade(uint32_t group) const {
  const auto count = [&](const std::map<uint32_t, uint32_t>& updates) {
    const auto found = updates.find(group);
    return found == updates.end() ? 0u : found->second;
  };
  return count(asked_) < count(made_);
}

absl::Status ClientUpdates::Update(uint32_t group, absl::Span<const PushItem> gradients,
                                   absl::Span<const PullItem> weights, double weight) {
  const uint32_t asked = ++asked_[group];
  if (asked <= made_[group]) return absl::OkStatus();  // the weights are there
  PushOptions options = NextOptions(group);
  options.weight = weight / full_weight_;
  options.examples = place_.examples;
  options.consumed = place_.consumed;
  WEIR_ASSIGN_OR_RETURN(const PushStats stats, client_.PushPull(gradients, weights, options));
  made_[group] = asked;
  ++total_;
  several_in_a_step_ |= asked > 1;
  updated_in_[group] = place_.step + 1;
  staleness_ = stats.staleness;
  if (stats.late) {
    ++late_pushes_;
    next_step_ = std::max(next_step_, stats.next_step);
    group_steps_[group] = std::max(group_steps_[group], stats.next_group_step);
  }
  return absl::OkStatus();
}

bool ClientUpdates::ShowTheEndOfStepBefore(uint64_t step, size_t groups) const {
  const auto in_it = std::count_if(updated_in_.begin(), updated_in_.end(),
                                   [&](const auto& group) { return group.second == step; });
  return !several_in_a_step_ && static_cast<size_t>(in_it) == groups;
}

absl::Status ClientUpdates::Finish(uint32_t groups) {
  for (uint32_t group = 1; group <= groups; ++group) {
    PushOptions options = NextOptions(group);
    options.weight = 0;
    options.consumed = place_.consumed;
    options.finished = true;
    WEIR_RETURN_IF_ERROR(client_.Push({}, options).status());
  }
  return absl::OkStatus();
}

absl::Status ClientUpdates::PushState(absl::Span<const PushItem> state, uint64_t step) {
  place_.step = step;
  PushOptions options = NextOptions(0);
  options.consumed = place_.consumed;
  return client_.Push(state, options).status();
}

}  // namespace weir
