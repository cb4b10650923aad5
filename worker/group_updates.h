// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "weir/parameter_client.h"

namespace weir {

// An update under way. Its end, or its destruction, frees the buffers. Used from one thread.
class PendingUpdate {
 public:
  virtual ~PendingUpdate() = default;
  // Once. Errors: those of GroupUpdates::Update.
  virtual absl::Status Wait() = 0;
};

// Where the gradients of a step go and the new weights come from: a servers' client during
// training, nowhere during a check. Thread-compatible.
class GroupUpdates {
 public:
  virtual ~GroupUpdates() = default;

  // True: the step is repeated, and the group's next update was made before that: it does nothing.
  virtual bool IsMade(uint32_t) const { return false; }

  // One update of an optimizer group (index in the declaration plus one), each of its variables in
  // both lists. `weight`: examples behind the gradients, or what stands for them; with 0 all are
  // absent. Returns with the new weights in `weights`. Errors: those of ParameterClient::PushPull.
  virtual absl::Status Update(uint32_t group, absl::Span<const PushItem> gradients,
                              absl::Span<const PullItem> weights, double weight) = 0;

  // The same without waiting, all buffers untouched until Wait returns; waited for before the next
  // step. nullptr: IsMade, the weights were there. Here: an update that has been waited for.
  virtual std::unique_ptr<PendingUpdate> StartUpdate(uint32_t group,
                                                     absl::Span<const PushItem> gradients,
                                                     absl::Span<const PullItem> weights,
                                                     double weight);
};

// One that has ended. Used from one thread.
class EndedUpdate final : public PendingUpdate {
 public:
  explicit EndedUpdate(absl::Status status) : status_(std::move(status)) {}
  absl::Status Wait() override { return status_; }

 private:
  const absl::Status status_;
};

inline std::unique_ptr<PendingUpdate> GroupUpdates::StartUpdate(
    uint32_t group, absl::Span<const PushItem> gradients, absl::Span<const PullItem> weights,
    double weight) {
  if (IsMade(group)) return nullptr;
  return std::make_unique<EndedUpdate>(Update(group, gradients, weights, weight));
}

}  // namespace weir
