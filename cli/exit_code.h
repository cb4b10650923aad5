// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "cli/child_process.h"

namespace weir {

// What `weir run` ends with: weir-worker's codes where the workers ended alike
// (docs/exit-codes.md).
enum class RunExit {
  kDone = 0,
  kFailed = 1,     // anything that is not below
  kBadJob = 2,     // the job file, its overrides, or the command line
  kRefused = 3,    // by the coordinator or the servers
  kDiverged = 4,   // a gradient that is not finite
  kData = 5,       // data missing or wrong
  kNoCluster = 6,  // the coordinator is not reached, or the run's own cluster does not stay up
  kStopped = 130,  // by request
};

// The code of what kept a run from starting.
RunExit RunExitOf(const absl::Status& status);

// What a worker's end says, as "the cluster refused the job"; empty where it says nothing.
std::string MeaningOf(const ExitState& state);

// The coordinator or the servers did not want it.
bool IsRefusal(const ExitState& state);

// Another worker in its place would end alike.
bool WouldEndAlike(const ExitState& state);

}  // namespace weir
