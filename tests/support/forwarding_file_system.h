// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "common/file_system.h"

namespace weir {

// The machine's files, for tests that watch or change one of the operations. Thread-safe.
class ForwardingFileSystem : public FileSystem {
 public:
  absl::Status CreateFolder(const std::string& path) override { return real_.CreateFolder(path); }
  absl::Status WriteFile(const std::string& path, absl::string_view contents) override {
    return real_.WriteFile(path, contents);
  }
  absl::Status SyncFile(const std::string& path) override { return real_.SyncFile(path); }
  absl::Status SyncFolder(const std::string& path) override { return real_.SyncFolder(path); }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return real_.Rename(from, to);
  }
  absl::Status RemoveFile(const std::string& path) override { return real_.RemoveFile(path); }
  absl::Status RemoveTree(const std::string& path) override { return real_.RemoveTree(path); }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    return real_.List(path);
  }
  absl::StatusOr<uint64_t> FileSize(const std::string& path) override {
    return real_.FileSize(path);
  }
  bool Exists(const std::string& path) override { return real_.Exists(path); }
  absl::StatusOr<uint64_t> FreeBytes(const std::string& path) override {
    return real_.FreeBytes(path);
  }
  absl::Status Scan(const std::string& path,
                    absl::FunctionRef<void(absl::Span<const std::byte>)> consume) override {
    return real_.Scan(path, consume);
  }

 private:
  FileSystem& real_ = FileSystem::Real();
};

}  // namespace weir
