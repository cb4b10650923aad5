// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "common/clock.h"
#include "weir/job_session.h"
#include "weir/parameter_client.h"
#include "weir/v1/job_spec.pb.h"
#include "worker/progress_log.h"
#include "worker/replica_runner.h"
#include "worker/worker_input.h"

namespace weir {

// What training works on. All borrowed; everything outlives the loop.
struct TrainingParts {
  const v1::JobSpec& spec;  // resolved
  JobSession& session;
  ParameterClient& client;
  ReplicaRunner& runner;
  WorkerInput& input;
  SliceReader* test;  // in order; nullptr: nothing is evaluated
  ProgressLog& log;
  Clock& clock;
  const std::atomic<bool>& interrupted;  // true: leave at the next chance
};

// Cancelled where the worker was interrupted.
inline absl::Status CheckNotInterrupted(const TrainingParts& parts) {
  return parts.interrupted ? absl::CancelledError("interrupted") : absl::OkStatus();
}

}  // namespace weir
