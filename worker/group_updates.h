// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "weir/parameter_client.h"

namespace weir {

// Where the gradients of a step go and the new weights come from: a servers' client during
// training, nowhere during a check.
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
};

}  // namespace weir
