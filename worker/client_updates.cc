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
  options.may_update_again = place_.first && group != 0;
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

PushOptions ClientUpdates::OptionsOf(uint32_t group, double weight) {
  PushOptions options = NextOptions(group);
  options.weight = weight / full_weight_;
  options.examples = asked_[group] > 1 ? 0 : place_.examples;  // a step's examples count once
  options.consumed = place_.consumed;
  return options;
}

absl::Status ClientUpdates::Update(uint32_t group, absl::Span<const PushItem> gradients,
                                   absl::Span<const PullItem> weights, double weight) {
  const bool made = IsMade(group);
  ++asked_[group];
  if (made) return absl::OkStatus();  // the weights are there
  WEIR_ASSIGN_OR_RETURN(const PushStats stats,
                        client_.PushPull(gradients, weights, OptionsOf(group, weight)));
  seconds_.push += absl::ToDoubleSeconds(stats.sending);
  seconds_.wait += absl::ToDoubleSeconds(stats.waiting);
  seconds_.pull += absl::ToDoubleSeconds(stats.receiving);
  CountMade(group);
  Note(group, stats);
  return absl::OkStatus();
}

void ClientUpdates::CountMade(uint32_t group) {
  made_[group] = asked_[group];
  ++total_;
  several_in_a_step_ |= asked_[group] > 1;
  updated_in_[group] = place_.step + 1;
}

void ClientUpdates::Note(uint32_t group, const PushStats& stats) {
  staleness_ = stats.staleness;
  if (!stats.late) return;
  ++late_pushes_;
  next_step_ = std::max(next_step_, stats.next_step);
  group_steps_[group] = std::max(group_steps_[group], stats.next_group_step);
}

class ClientUpdates::Started final : public PendingUpdate {
 public:
  Started(ClientUpdates& owner, uint32_t group, std::unique_ptr<PendingPush> push)
      : owner_(owner), group_(group), push_(std::move(push)) {}
  absl::Status Wait() override {
    const absl::Time began = owner_.clock_.Now();
    const absl::StatusOr<PushStats> waited = push_->Wait();
    owner_.seconds_.wait += absl::ToDoubleSeconds(owner_.clock_.Now() - began);
    WEIR_ASSIGN_OR_RETURN(const PushStats stats, waited);
    owner_.Note(group_, stats);
    return absl::OkStatus();
  }

 private:
  ClientUpdates& owner_;
  const uint32_t group_;
  const std::unique_ptr<PendingPush> push_;
};

std::unique_ptr<PendingUpdate> ClientUpdates::StartUpdate(uint32_t group,
                                                          absl::Span<const PushItem> gradients,
                                                          absl::Span<const PullItem> weights,
                                                          double weight) {
  const bool made = IsMade(group);
  ++asked_[group];
  if (made) return nullptr;
  auto push = client_.StartPushPull(gradients, weights, OptionsOf(group, weight));
  // A step that is repeated does not send it again, whatever becomes of it.
  CountMade(group);
  return std::make_unique<Started>(*this, group, std::move(push));
}

bool ClientUpdates::ShowTheEndOfStepBefore(uint64_t step, size_t groups) const {
  const auto in_it = std::count_if(updated_in_.begin(), updated_in_.end(),
                                   [&](const auto& group) { return group.second == step; });
  return !several_in_a_step_ && !place_.first && static_cast<size_t>(in_it) == groups;
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

absl::Status ClientUpdates::Restate(uint32_t group, absl::Span<const PushItem> values, bool tells) {
  std::vector<PushItem> items(values.begin(), values.end());
  for (PushItem& item : items) {
    if (!tells) item = {item.variable, nullptr, 0};
  }
  PushOptions options = NextOptions(group);
  options.weight = tells ? 1 : 0;
  options.consumed = place_.consumed;
  several_in_a_step_ = true;
  return client_.PushPull(items, {}, options).status();
}

absl::Status ClientUpdates::PushState(absl::Span<const PushItem> state, uint64_t step) {
  place_.step = step;
  PushOptions options = NextOptions(0);
  options.consumed = place_.consumed;
  return client_.Push(state, options).status();
}

}  // namespace weir
