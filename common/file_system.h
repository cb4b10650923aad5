// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace weir {

// The files that we write ourselves (RocksDB has its own way to the disk). Implementations are
// thread-safe.
//
// What survives a crash is what was synced: the bytes of a file by SyncFile, its name by SyncFolder
// of the folder that holds it.
//
// Errors, each naming operation and path: NotFound - no such file or folder; ResourceExhausted - no
// space, quota or file handles; PermissionDenied; DataLoss - the device failed (EIO); AlreadyExists
// and FailedPrecondition - a file where a folder is wanted, a folder that is not empty; Internal -
// any other.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // With its parents, whose names are durable on return; fine where it exists.
  virtual absl::Status CreateFolder(const std::string& path) = 0;
  // Creates the file or replaces what it held. Not durable yet.
  virtual absl::Status WriteFile(const std::string& path, absl::string_view contents) = 0;
  virtual absl::Status SyncFile(const std::string& path) = 0;
  virtual absl::Status SyncFolder(const std::string& path) = 0;
  // Of files replaces the target, at once.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status RemoveFile(const std::string& path) = 0;
  // A folder with all that is in it; fine where there is none.
  virtual absl::Status RemoveTree(const std::string& path) = 0;

  // Names within the folder, sorted.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) = 0;
  virtual absl::StatusOr<uint64_t> FileSize(const std::string& path) = 0;
  // True for files and folders.
  virtual bool Exists(const std::string& path) = 0;
  // Bytes that an ordinary user may still write to the file system that holds `path`.
  virtual absl::StatusOr<uint64_t> FreeBytes(const std::string& path) = 0;
  // Calls `consume` with the bytes of the file, piece by piece, in order.
  virtual absl::Status Scan(const std::string& path,
                            absl::FunctionRef<void(absl::Span<const std::byte>)> consume) = 0;

  // The whole file; ResourceExhausted where it is larger than `max_bytes`.
  absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t max_bytes);
  // Write, sync, and the name durable too.
  absl::Status WriteDurably(const std::string& path, absl::string_view contents);

  // The machine's files. Lives for ever.
  static FileSystem& Real();
};

// The folder that holds `path`: "." for a bare name.
std::string FolderOf(absl::string_view path);

}  // namespace weir
