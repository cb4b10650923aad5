// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/file_system.h"
#include "common/mutex.h"

namespace weir {

// The highest term of a coordinator that this server has seen, over all its lives: so a coordinator
// that has been replaced cannot command it any more. One small file, TERM, in the data directory.
// Thread-safe.
class TermRecord {
 public:
  // Reads what is there. `files` must outlive the record.
  // Errors: DataLoss - the file holds no term; others of FileSystem.
  static absl::StatusOr<std::unique_ptr<TermRecord>> Open(FileSystem& files, std::string folder);

  // Durably remembers a term that is higher than all before.
  // Errors: Aborted - a higher one has been seen; those of FileSystem, and then it is not
  // remembered.
  absl::Status Admit(uint64_t term);

 private:
  TermRecord(FileSystem& files, std::string folder, uint64_t highest)
      : files_(files), folder_(std::move(folder)), highest_(highest) {}
  absl::Status Write(uint64_t term);

  FileSystem& files_;
  const std::string folder_;
  // Held over the disk, because whoever waits for it has to wait for the disk: a command of a new
  // term may not be obeyed before the term is durable, nor a lower term written after a higher one.
  // Terms that are known do not take it.
  Mutex writing_ ABSL_ACQUIRED_BEFORE(mutex_);
  Mutex mutex_;
  uint64_t highest_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
