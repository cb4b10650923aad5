// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "weir/job_session.h"
#include "weir/parameter_client.h"
#include "weir/v1/job_spec.pb.h"
#include "worker/data/image_dataset.h"
#include "worker/model_registry.h"
#include "worker/replica_runner.h"
#include "worker/run_summary.h"

namespace weir {

// 200 images of 8 x 8 in 4 classes, learnable. The same every time.
ImageDataset SmallDataset();

// A resolved job over it: mlp with 12 hidden units, 50 steps of 16 in `sync`, one worker.
v1::JobSpec SmallJob(const std::string& name, const v1::Optimizer& optimizer);

absl::StatusOr<std::unique_ptr<ReplicaRunner>> SmallRunner(
    const v1::JobSpec& spec, const ModelRegistry& models = ModelRegistry::WithBuiltins());

// The floating-point values of every variable, one after the other.
std::vector<float> ValuesOf(ReplicaRunner& runner);

struct Trained {
  std::vector<float> values;
  RunSummary summary;
};

// A worker's whole training loop over a job.
absl::StatusOr<Trained> TrainSmall(const v1::JobSpec& spec, JobSession& session,
                                   ParameterClient& client,
                                   const ModelRegistry& models = ModelRegistry::WithBuiltins());
absl::StatusOr<Trained> TrainLocally(const v1::JobSpec& spec,
                                     const ModelRegistry& models = ModelRegistry::WithBuiltins());

}  // namespace weir
