// SPDX-License-Identifier: Apache-2.0
// Where batches come from, without LibTorch.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "worker/data/batch_slices.h"
#include "worker/replica_batch.h"

namespace weir {

// Examples by their place: a dataset with its order. Thread-compatible.
class SliceReader {
 public:
  virtual ~SliceReader() = default;
  virtual uint64_t size() const = 0;
  // A pure function of the slice, which may be empty. Errors: what the dataset says.
  virtual absl::StatusOr<ReplicaBatch> Read(const BatchSlice& slice) = 0;
};

// Batches from a callable, which has its own order. Thread-safe where the callable is.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // May block. Thread-safe where the source has several threads. Errors: OutOfRange - it has ended;
  // what the callable says.
  virtual absl::StatusOr<ReplicaBatch> Next() = 0;
  // From any thread: Next shall return soon, with whatever.
  virtual void Stop() = 0;
};

// What a worker's next step needs.
struct InputRequest {
  BatchSlice slice;                     // of all replicas of the worker
  std::vector<BatchSlice> upcoming;     // of the steps behind it: a guess, to read ahead
  uint32_t first_replica = 0;           // for messages
  std::function<absl::Status()> go_on;  // asked now and then in a wait, which an error ends
};

// The input of a worker's replicas. Used from one thread.
class WorkerInput {
 public:
  virtual ~WorkerInput() = default;

  // A batch for each replica. Errors, which name pipeline and replica: OutOfRange - a source has
  // ended; that of `go_on`, as it is; what the dataset or the callable says.
  virtual absl::StatusOr<std::vector<ReplicaBatch>> Take(const InputRequest& request) = 0;
  // Steps that it reads ahead.
  virtual uint32_t ahead() const { return 0; }
};

// The input pipelines of a worker: one, which all of its replicas share, or one for each.
struct PipelinePlace {
  uint32_t first_pipeline = 0;  // the id of the first one here
  uint32_t pipelines = 1;
  uint32_t replicas = 1;  // of the worker

  uint32_t PipelineOf(uint32_t replica) const { return pipelines == 1 ? 0 : replica; }
  absl::Status Name(const absl::Status& status, const InputRequest& request,
                    uint32_t replica) const {
    return absl::Status(
        status.code(),
        absl::StrCat("input pipeline ", first_pipeline + PipelineOf(replica), ", replica ",
                     request.first_replica + replica, ": ", status.message()));
  }
};

}  // namespace weir
