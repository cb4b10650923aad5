// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "worker/run_summary.h"
#include "worker/training_parts.h"

namespace weir {

// A worker's whole share of a job, over the session and the client alone: the same on a cluster and
// in one process. Used from one thread, once.
class TrainingLoop {
 public:
  explicit TrainingLoop(TrainingParts parts);

  // Declares, trains through every rollback, evaluates, and leaves the job. Errors: Cancelled -
  // interrupted; Aborted - no longer a member (join anew) or no newer attempt came; InvalidArgument
  // - a gradient that is not finite, names worker, step and parameter; FailedPrecondition - the job
  // was ended or declares other variables; DeadlineExceeded - names who is missing; Internal -
  // LibTorch. The worker has left the job then, with the error as its reason.
  absl::StatusOr<RunSummary> Run();

 private:
  absl::StatusOr<RunSummary> TrainToTheEnd();
  absl::StatusOr<JobInfo> WaitUntilReady();
  absl::Status AwaitNewAttempt(uint64_t attempt, const absl::Status& cause);

  TrainingParts parts_;
  absl::Time created_;
};

}  // namespace weir
