// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cli/local_cluster.h"
#include "cli/local_state.h"
#include "cli/process_group.h"
#include "common/clock.h"

namespace weir {

// The folder in which the own cluster of a run keeps its data, its lock and its address.
std::string ClusterFolder(const std::string& run_folder);

// The coordinator of a run that has ended, started once more over what the run has left, so that it
// can be asked. It has no servers, so nothing goes on. Used from one thread.
class PastRun {
 public:
  // Errors: NotFound - no run with a cluster of its own has been there; AlreadyExists - one is at
  // work there now; Unavailable - the coordinator does not come up. `clock` must outlive the run.
  static absl::StatusOr<std::unique_ptr<PastRun>> Open(const std::string& program_folder,
                                                       const std::string& run_folder,
                                                       const Clock& clock);
  ~PastRun();

  const std::string& coordinator() const { return cluster_.coordinator(); }

 private:
  PastRun(const std::string& program_folder, const std::string& run_folder, const Clock& clock,
          std::unique_ptr<LocalLock> lock);

  const std::unique_ptr<LocalLock> lock_;
  ProcessGroup group_;
  LocalCluster cluster_;
};

}  // namespace weir
