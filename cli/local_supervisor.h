// SPDX-License-Identifier: Apache-2.0
// `weir local`: a cluster on this machine that outlives the command that started it.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/local_state.h"
#include "common/clock.h"

namespace weir {

struct LocalOptions {
  std::string state_folder;    // lock, cluster.json, logs/, data/
  std::string program_folder;  // of weir and the daemons
  int servers = 2;
  // Somebody asked for that many: a cluster that runs with others will not do.
  bool servers_wanted = false;
  std::string log_level = "info";
  const Clock* clock = nullptr;  // must outlive the call
  // Lets time pass between two looks at what another process does.
  std::function<void(absl::Duration)> sleep;
};

// The supervisor itself: runs the cluster until `stop_requests` rises, keeps cluster.json true.
// Errors: AlreadyExists - another one runs; Unavailable - the cluster does not come up or stay up.
absl::Status SuperviseLocalCluster(const LocalOptions& options,
                                   const std::function<int()>& stop_requests);

// Starts a supervisor in the background and waits until its cluster serves, the coordinator where
// the last one served, if that port is free. One that runs already is left as it is.
// Errors: Unavailable - it does not come up, with its last words; FailedPrecondition - one runs,
// but not with as many servers as are wanted; those of FileSystem for the state folder.
struct LocalUpResult {
  LocalState state;
  std::string remark;  // for a person, where it did not come up just now as it was; else empty
};
absl::StatusOr<LocalUpResult> LocalUp(const LocalOptions& options);

// Ends the supervisor and its cluster, and waits. Fine where none runs.
// Errors: DeadlineExceeded - it does not end; FailedPrecondition - jobs have workers, and nobody
// said `force`: names them.
absl::Status LocalDown(const LocalOptions& options, bool force);

// Errors: NotFound - none runs.
absl::StatusOr<LocalState> ReadLocalState(const std::string& state_folder);

}  // namespace weir
