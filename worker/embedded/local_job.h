// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "weir/job.h"
#include "weir/v1/job_spec.pb.h"

namespace weir {

struct LocalJobOptions {
  // As a coordinator would get it. `workers` and `min_workers` count as 1, whatever they say; async
  // ranges need `train_examples`.
  v1::JobSpec spec;
  std::string data_dir;  // checkpoints go to <data_dir>/checkpoints; empty: none can be saved
  uint64_t memory_limit_bytes = 0;  // of weights, slots and accumulators; 0: none
  int threads = 1;                  // of the executor behind the server's core
  // Of deadlines, and of when checkpoints are due; must outlive the job.
  Clock* clock = &Clock::Real();
  // Whether a person wants the job to end after its current step; null: never. It is saved when the
  // worker leaves then, if it asks for checkpoints at all. Called from any thread.
  std::function<bool()> stop_requested = nullptr;
};

// A job of one worker whose only server is an object in this process: the session and the client
// that JoinJob gives, without a network and without daemons.
// Errors: InvalidArgument - a bad spec; NotFound - there is no checkpoint to resume from, or no
// data folder; DataLoss - it is damaged; FailedPrecondition - it is of a newer format; and those of
// FileSystem for the data folder.
absl::StatusOr<Job> OpenLocalJob(const LocalJobOptions& options);

}  // namespace weir
