// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "weir/replica_class.h"
#include "weir/v1/job_spec.pb.h"
#include "worker/data/image_dataset.h"
#include "worker/worker_input.h"

namespace weir {

struct WorkerInputs {
  std::unique_ptr<WorkerInput> train;
  std::unique_ptr<SliceReader> test;  // nullptr: nothing is evaluated
};

// The job file's images. Borrows both sets.
WorkerInputs ImageInputs(const v1::JobSpec& spec, uint32_t rank, const ImageDataset& train,
                         const ImageDataset& test);

// What the replica class's MakeInput gives. Errors: InvalidArgument - not what the job's `data`
// says, with what to write there; Internal - it has thrown: names the pipeline. The clock must
// outlive what it gives.
absl::StatusOr<WorkerInputs> OwnInputs(const v1::JobSpec& spec, uint32_t rank,
                                       const ReplicaClass& replica_class, const Clock& clock);

// Whether job and class agree on where batches come from. Errors: InvalidArgument.
absl::Status CheckInput(const v1::JobSpec& spec, const ReplicaClass& replica_class);

}  // namespace weir
