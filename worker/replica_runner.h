// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "weir/parameter_client.h"
#include "weir/variable.h"
#include "worker/data/batch.h"
#include "worker/group_updates.h"

namespace weir {

// Means over a batch, by name.
using Metrics = std::map<std::string, double>;

// A replica as the training loop sees it, without LibTorch. Used from one thread.
class ReplicaRunner {
 public:
  virtual ~ReplicaRunner() = default;

  virtual const Declaration& declaration() const = 0;

  // Builds the replica anew: the first values again, which depend on the job's seed alone.
  virtual absl::Status Reset() = 0;

  // The memory of every variable, in the declaration's order; valid until the next call of anything
  // here.
  virtual std::vector<PullItem> Storage() = 0;

  // One training step: forward, backward, and an update of each group. Errors: those of `updates`;
  // Internal - LibTorch failed, with its message.
  virtual absl::StatusOr<Metrics> Train(const ImageBatch& batch, uint64_t step,
                                        GroupUpdates& updates) = 0;

  virtual absl::StatusOr<Metrics> Evaluate(const ImageBatch& batch) = 0;
};

}  // namespace weir
