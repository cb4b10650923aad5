// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/torch_replica.h"
#include "worker/training_steps.h"

namespace weir {

// What a Replicator works on. Used from one thread, the loop's.
class ReplicaLoop {
 public:
  virtual ~ReplicaLoop() = default;

  virtual bool Next() = 0;
  virtual absl::StatusOr<std::vector<Nest>> RunStep(const TorchReplica::StepFunction& function) = 0;
  virtual void Log(const std::vector<Nest>& outputs) = 0;
  // Between steps: `function` on each local replica's value; what it gives is equal on all. It may
  // be called again until the step that is next is done, where a worker leaves in the middle.
  virtual absl::StatusOr<Nest> Collect(
      const std::vector<Nest>& values,
      const std::function<Nest(StepContext&, const Nest&)>& function) = 0;
  virtual ReplicaStep Place() const = 0;
  virtual uint32_t replicas() const = 0;
};

}  // namespace weir
