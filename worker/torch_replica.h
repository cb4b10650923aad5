// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/model_registry.h"
#include "worker/replica_parts.h"
#include "worker/replica_runner.h"

namespace weir {

// Means over several batches, each counted by its weight. Thread-compatible.
class MetricsMean {
 public:
  void Add(const Metrics& metrics, double weight);
  Metrics Means() const;

 private:
  std::map<std::string, std::pair<double, double>> sums_;  // of weighted values, of weights
};

// Runs a function of the user's and turns what it throws into a status.
absl::Status CatchErrors(absl::string_view what, const std::function<void()>& function);

// The named scalars of what a step returns.
Metrics ScalarsOf(const Nest& nest);

// One replica with its thread's share of a step. Used from one thread, which also builds and
// destroys it.
class TorchReplica {
 public:
  using StepFunction = std::function<Nest(Replica&, StepContext&, const Nest&)>;

  // `bf16`: steps compute in bfloat16 where LibTorch's autocast says that this is safe.
  TorchReplica(ReplicaParts parts, bool bf16) : parts_(std::move(parts)), bf16_(bf16) {}

  // Anew, under the default generator's seed.
  absl::Status Build(const ReplicaFactory& factory, uint64_t seed);
  void Destroy();

  struct Step {
    uint64_t step = 0;
    uint64_t global_step = 0;
    uint64_t seed = 0;  // of rng()
    GroupUpdates* updates = nullptr;
  };
  // The output is in output() then.
  absl::Status Train(const StepFunction& function, const Step& step, const ReplicaBatch& batch);
  absl::Status Evaluate(const ReplicaBatch& batch);
  // Between steps: what the function says to the other replicas, without a batch.
  absl::Status Collect(const Step& next, const std::function<Nest(StepContext&)>& function);

  const ReplicaParts& parts() const { return parts_; }
  const Nest& output() const { return output_; }
  double weight() const { return parts_.step.weight; }

 private:
  absl::Status Run(absl::string_view what, const StepFunction& function, const ReplicaBatch& batch);
  void BeginStep(const Step& step, double weight);

  ReplicaParts parts_;
  const bool bf16_;
  std::unique_ptr<Replica> replica_;
  Nest output_;
};

}  // namespace weir
