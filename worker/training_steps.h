// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "worker/replica_runner.h"

namespace weir {

// The steps of an attempt of the job, as a loop takes them:
//   while (steps.Next()) steps.Log(steps.Step());
// An error sticks: Next is false then, and the framework reports it. Used from one thread.
class TrainingSteps {
 public:
  virtual ~TrainingSteps() = default;

  // What is due between steps: evaluations, interruptions, a stop by command. False: the end of the
  // job, or of this attempt of it.
  virtual bool Next() = 0;

  // One training step of all replicas. Gives their mean metrics. Errors: OutOfRange - the job's
  // length has been reached, nothing was done; those of the runner.
  virtual absl::StatusOr<Metrics> Step() = 0;

  // Shows what the last step gave. An error is ignored: it sticks anyway.
  virtual void Log(const absl::StatusOr<Metrics>& metrics) = 0;

  // Of a collective between steps, made by the runner: where it is.
  virtual ReplicaStep Place() const = 0;
};

}  // namespace weir
