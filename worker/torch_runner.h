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
  v1::JobSpec spec;  // model, optimizers, seed, replicas
  uint64_t height = 0;
  uint64_t width = 0;
  uint64_t classes = 0;
};

// Builds the job's model, once for each replica of the process. Each replica computes with one
// thread from then on. Errors: NotFound - no such model; InvalidArgument - an option of it, or an
// optimizer; Internal - LibTorch failed, with its message.
absl::StatusOr<std::unique_ptr<ReplicaRunner>> CreateTorchRunner(const ModelRegistry& models,
                                                                 const TorchRunnerOptions& options);

}  // namespace weir
