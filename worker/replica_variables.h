// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "weir/parameter_client.h"
#include "worker/replica_parts.h"

namespace weir {

// The variables of the replicas of one process. What an optimizer updates has one memory for all of
// them, as far as they are on the CPU; state is each replica's own. Weights arrive in a buffer of
// contiguous elements, which is that very memory where it has this form. Used from one thread at a
// time, while no replica computes.
class ReplicaVariables {
 public:
  // Forgets everything.
  void Clear();
  // The next replica, built. The first one's declaration and values are everybody's.
  // Errors: InvalidArgument - it declares something else, or a parameter whose elements overlap.
  absl::Status Join(const ReplicaParts& parts);

  const Declaration& declaration() const { return declaration_; }

  // Where values are pulled to, by variable. They reach the replicas with Land.
  std::vector<PullItem> Storage() const;
  PullItem StorageOf(size_t variable) const;
  void Land(absl::Span<const PullItem> pulled);

  // The first replica has written to its tensors of these: they become what is in Storage, and
  // everybody's.
  void TakeFromFirst(absl::Span<const size_t> variables);

  // State, aggregated over the replicas. Valid until the next call.
  std::vector<PushItem> State();
  // Puts every replica's state aside, and back.
  void KeepState();
  void RestoreState();

 private:
  bool IsState(size_t variable) const { return declaration_.variables[variable].group == 0; }
  absl::Status Share(size_t variable, torch::Tensor tensor);

  Declaration declaration_;
  std::vector<torch::Tensor> landing_;                // by variable
  std::vector<std::vector<torch::Tensor>> replicas_;  // by replica, by variable
  std::vector<torch::Tensor> aggregated_;             // by variable; of state
  std::vector<std::vector<torch::Tensor>> kept_;      // by replica, by variable; of state
};

}  // namespace weir
