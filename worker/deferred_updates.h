// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "worker/gradient_clip.h"
#include "worker/group_updates.h"
#include "worker/replica_variables.h"

namespace weir {

// Updates that nobody has waited for yet. New weights arrive in a second buffer, beside those that
// graphs may still need, and land when the update is settled. Used from one thread at a time, while
// no replica computes.
class DeferredUpdates {
 public:
  explicit DeferredUpdates(ReplicaVariables& variables) : variables_(variables) {}

  // One update of a group. The pushed items point into `gradients`, which are kept.
  void Start(GroupUpdates& updates, uint32_t group, const std::vector<PushItem>& pushed,
             const Gradients& gradients, double weight);

  // Waits for the updates of a group, or for all, and lands their weights. Errors: that of the
  // first that failed; none is left under way.
  absl::Status Settle(uint32_t group);
  absl::Status Settle();

 private:
  struct UnderWay {
    uint32_t group = 0;
    Gradients gradients;
    std::vector<PushItem> pushed;
    std::vector<PullItem> arriving;
    std::unique_ptr<PendingUpdate> update;  // ends first
  };

  absl::Status SettleIf(bool all, uint32_t group);

  ReplicaVariables& variables_;
  std::map<size_t, torch::Tensor> arriving_;  // by variable: bytes
  std::list<UnderWay> under_way_;             // in the order of their starts
};

}  // namespace weir
