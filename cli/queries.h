// SPDX-License-Identifier: Apache-2.0
// What `weir status`, `weir jobs`, `weir checkpoint list` and `weir stop` ask the coordinator.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "rpc/protocol.h"

namespace weir {

struct Query {
  std::string coordinator;  // HOST:PORT; empty: the local cluster's, else the default
  std::string default_coordinator = kDefaultCoordinator;  // asked once
  std::string state_folder;                               // of the local cluster
  std::string run_folder = {};      // of a run with its own cluster, which is asked; empty: none
  std::string program_folder = {};  // of the coordinator of a run that has ended
  double timeout_seconds = 5;
  bool json = false;
  const Clock* clock = nullptr;  // must outlive the call
};

// Each returns what is to be printed.
// Errors: Unavailable - no coordinator answers, with its address; NotFound - no such job, or no
// such run.
absl::StatusOr<std::string> QueryStatus(const Query& query);
// Without a name: all jobs.
absl::StatusOr<std::string> QueryJobs(const Query& query, const std::string& job);
absl::StatusOr<std::string> QueryCheckpoints(const Query& query, const std::string& job);
absl::StatusOr<std::string> StopJob(const Query& query, const std::string& job);

// Names of the jobs that have workers now.
absl::StatusOr<std::vector<std::string>> JobsWithWorkers(const Query& query);

}  // namespace weir
