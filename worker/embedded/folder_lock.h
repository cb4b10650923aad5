// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace weir {

// Held by the one job of a folder, in this process or another. The kernel lets go of it when the
// process ends, however that comes about. Thread-compatible.
class FolderLock {
 public:
  // The folder is there. Where the file system keeps no locks, the log says so, and nothing is
  // held. Errors: FailedPrecondition - somebody holds it; Internal - no file can be made.
  static absl::StatusOr<std::unique_ptr<FolderLock>> Take(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  explicit FolderLock(int file) : file_(file) {}

  const int file_;
};

}  // namespace weir
