// SPDX-License-Identifier: Apache-2.0
#include "worker/embedded/folder_lock.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace weir {

absl::StatusOr<std::unique_ptr<FolderLock>> FolderLock::Take(const std::string& folder) {
  const std::string path = folder + "/.lock";  // the name of no job and of no server
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) {
    return absl::InternalError(absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
  }
  std::unique_ptr<FolderLock> lock(new FolderLock(file));
  // Not fcntl's: those are of a process, which may open the folder twice.
  if (flock(file, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder,
                     " is in use by another process, whose checkpoints this one would take "
                     "for its own: wait for its end, or give this one a --data-dir"));
  }
  spdlog::warn("no lock on {}: {}; let nobody else use that folder", folder, std::strerror(errno));
  return lock;
}

FolderLock::~FolderLock() {
  close(file_);
}

}  // namespace weir
