// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "weir/parameter_client.h"
#include "weir/variable.h"
#include "worker/collectives.h"
#include "worker/group_updates.h"
#include "worker/replica_batch.h"

namespace weir {

class TrainingSteps;

// Means over a batch, by name.
using Metrics = std::map<std::string, double>;

// A training step's place in the job, for the replicas of a process.
struct ReplicaStep {
  uint64_t step = 0;
  uint64_t global_step = 0;    // of the job (docs/glossary.md), as far as this worker knows
  uint64_t attempt = 0;        // of the job
  uint32_t first_replica = 0;  // the id of the first one here
  uint32_t first_index = 0;    // its place among the replicas in sync
  uint32_t replicas_in_sync = 1;
  bool newcomer = false;                 // the process: its first step of the attempt
  ProcessCollectives* others = nullptr;  // nullptr: this process is all there is
};

// An optimizer that the replicas step themselves, after its last step.
struct LocalValues {
  uint32_t group = 0;            // index in the declaration plus one
  std::vector<PushItem> values;  // of all of its variables; valid until the next call of anything
  bool told = false;             // this process has pushed them with that step
};

// The replicas of a process as the training loop sees them, without LibTorch. Used from one thread.
class ReplicaRunner {
 public:
  virtual ~ReplicaRunner() = default;

  virtual uint32_t replicas() const = 0;
  virtual const Declaration& declaration() const = 0;

  // Builds the replicas anew: the first values again, which depend on the job's seed alone.
  virtual absl::Status Reset() = 0;

  // The memory that values are pulled into, by variable, in the declaration's order; valid until
  // the next Reset. Holds the first values after it. What was pulled reaches the replicas with
  // Land.
  virtual std::vector<PullItem> Storage() = 0;
  virtual void Land(absl::Span<const PullItem> pulled) = 0;

  // State variables, aggregated over the replicas; valid until the next call of anything here.
  virtual std::vector<PushItem> State() = 0;
  // Puts the state of every replica aside, and back again.
  virtual void KeepState() = 0;
  virtual void RestoreState() = 0;

  // One training step on a batch for each replica: forward, backward, updates. Gives the replicas'
  // mean. Errors: those of `updates` and of the collectives; Internal - LibTorch failed, with the
  // replica and LibTorch's message.
  virtual absl::StatusOr<Metrics> Train(const ReplicaStep& step,
                                        absl::Span<const ReplicaBatch> batches,
                                        GroupUpdates& updates) = 0;

  // Waits for the weights of updates that steps have not waited for, and lands them: before anybody
  // looks at weights. Train and the end of Loop do so by themselves. Errors: those of `updates`.
  virtual absl::Status Settle() { return absl::OkStatus(); }

  // Of the optimizers that the replicas step themselves. Errors: FailedPrecondition - one keeps
  // other things than after its first step.
  virtual absl::StatusOr<std::vector<LocalValues>> LocalOptimizers() {
    return std::vector<LocalValues>();
  }

  // The model's own loop over its steps, or Train over and over. Errors of steps are theirs to
  // keep; Internal - the loop threw, with its message.
  virtual absl::Status Loop(TrainingSteps& steps) = 0;

  // Up to a batch for each replica; the mean over all examples.
  virtual absl::StatusOr<Metrics> Evaluate(absl::Span<const ReplicaBatch> batches) = 0;
};

}  // namespace weir
