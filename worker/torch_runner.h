// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "weir/v1/job_spec.pb.h"
#include "worker/model_registry.h"
#include "worker/replica_runner.h"

namespace weir {

struct TorchRunnerOptions {
  v1::JobSpec spec;  // model, optimizers, seed
  uint64_t height = 0;
  uint64_t width = 0;
  uint64_t classes = 0;
  uint32_t replica = 0;  // its number among all: differs in the random numbers of a step
};

// Builds the job's model. LibTorch computes with one thread in this process from then on.
// Errors: NotFound - no such model; InvalidArgument - an option of it, or an optimizer; Internal -
// LibTorch failed, with its message.
absl::StatusOr<std::unique_ptr<ReplicaRunner>> CreateTorchRunner(const ModelRegistry& models,
                                                                 const TorchRunnerOptions& options);

}  // namespace weir
