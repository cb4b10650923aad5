// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace weir {

// A cluster on this machine as its supervisor, `weir local` or a run, writes it down:
// <folder>/cluster.json.
struct LocalState {
  struct Process {
    std::string name;
    std::string address;
    pid_t pid = 0;  // 0: does not run just now
    int restarts = 0;
  };
  std::string coordinator;  // HOST:PORT
  std::vector<Process> processes;
};

std::string LocalStatePath(const std::string& folder);
std::string LocalStateToJson(const LocalState& state);
// Errors: InvalidArgument - not such a file.
absl::StatusOr<LocalState> LocalStateFromJson(const std::string& json);

// Held by the one supervisor of a state folder. The kernel lets go of it when the process ends,
// however that comes about, so that nobody ever takes a stale number for a living process.
// Thread-compatible.
class LocalLock {
 public:
  // Errors: AlreadyExists - somebody holds it; Internal - the folder cannot be written.
  static absl::StatusOr<std::unique_ptr<LocalLock>> Take(const std::string& folder);
  ~LocalLock();

  // The process that holds the folder's lock; a number that can be signalled. Errors: NotFound -
  // nobody does; FailedPrecondition - one does that has no number here, being on another machine or
  // in another container; Internal - the file system keeps no locks.
  static absl::StatusOr<pid_t> Holder(const std::string& folder);

 private:
  explicit LocalLock(int file) : file_(file) {}

  const int file_;
};

}  // namespace weir
