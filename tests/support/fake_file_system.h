// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/file_system.h"
#include "common/mutex.h"

namespace weir {

// Files in memory that know what has been synced: a test can stop the machine after any operation,
// and drop what a power failure would. Thread-safe.
class FakeFileSystem final : public FileSystem {
 public:
  // What a crash takes away, of what was not synced.
  enum class Loss { kNothing, kData, kNames, kDataAndNames };
  static constexpr Loss kAllLosses[] = {Loss::kNothing, Loss::kData, Loss::kNames,
                                        Loss::kDataAndNames};

  FakeFileSystem();
  ~FakeFileSystem() override;

  // Operations that change or sync something, as "write /a/b", in order.
  std::vector<std::string> operations() const;
  // The next operation that begins with `operation` fails with `error`; a write leaves half of it
  // behind.
  void FailNext(std::string operation, absl::Status error);
  // After `count` more operations everything fails, the first of these half done where it is a
  // write.
  void StopAfter(uint64_t count);
  // The machine is on again, without what it has lost.
  void Restart(Loss loss);
  void SetFreeBytes(uint64_t bytes);
  // Flips one bit of a file, or cuts it, behind everybody's back.
  void FlipBit(const std::string& path, uint64_t bit);
  void Truncate(const std::string& path, uint64_t size);

  absl::Status CreateFolder(const std::string& path) override;
  absl::Status WriteFile(const std::string& path, absl::string_view contents) override;
  absl::Status SyncFile(const std::string& path) override;
  absl::Status SyncFolder(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status RemoveFile(const std::string& path) override;
  absl::Status RemoveTree(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override;
  absl::StatusOr<uint64_t> FileSize(const std::string& path) override;
  bool Exists(const std::string& path) override;
  absl::StatusOr<uint64_t> FreeBytes(const std::string& path) override;
  absl::Status Scan(const std::string& path,
                    absl::FunctionRef<void(absl::Span<const std::byte>)> consume) override;

 private:
  struct Node;
  using NodeRef = std::shared_ptr<Node>;  // shared: by the present names and by the synced ones

  absl::Status Gate(const std::string& operation, const std::string& path)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  NodeRef Find(absl::string_view path) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<NodeRef> FindFile(absl::string_view path) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<NodeRef> FindFolder(absl::string_view path) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void Lose(Node& node, Loss loss);

  mutable Mutex mutex_;
  NodeRef root_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> operations_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<std::string, absl::Status>> failures_ ABSL_GUARDED_BY(mutex_);
  uint64_t left_ ABSL_GUARDED_BY(mutex_) = UINT64_MAX;
  uint64_t free_bytes_ ABSL_GUARDED_BY(mutex_) = UINT64_MAX;
};

}  // namespace weir
