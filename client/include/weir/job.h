// SPDX-License-Identifier: Apache-2.0
// Joining a job on a cluster. C++17; no LibTorch, no protobuf, no gRPC.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "weir/job_session.h"
#include "weir/parameter_client.h"

namespace weir {

// docs/regimes.md
enum class Regime { kSync = 1, kAsync = 2, kBoundedStaleness = 3, kSyncGroups = 4 };

struct JoinOptions {
  std::string coordinator;  // host:port
  std::string name;         // of the job
  uint32_t workers = 1;     // the job starts when so many have joined
  Regime regime = Regime::kAsync;
  uint64_t bounded_staleness = 0;             // with that regime: steps, at least 1
  uint64_t sync_group_size = 0;               // with that one: workers of a group
  uint32_t backup_workers = 0;                // with kSync
  int wanted_rank = -1;                       // -1: any free one
  absl::Duration timeout = absl::Minutes(1);  // for reaching the coordinator
  // A serialized weir.v1.JobSpec in place of name, workers and regime: what weir-worker sends.
  std::string serialized_spec;
};

// A membership and its data plane. The session outlives the client.
struct Job {
  std::unique_ptr<JobSession> session;
  std::unique_ptr<ParameterClient> parameters;
};

// Errors: Unavailable - no coordinator answers at the address; FailedPrecondition - the name is
// taken by a job with another spec (the first key that differs is named), has finished, or has all
// its workers; InvalidArgument - a bad spec.
absl::StatusOr<Job> JoinJob(const JoinOptions& options);

}  // namespace weir
