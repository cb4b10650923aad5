// SPDX-License-Identifier: Apache-2.0
#include "common/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace weir {
namespace {

constexpr size_t kScanBytes = 1 << 20;

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case ENOENT:
      return absl::StatusCode::kNotFound;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
      return absl::StatusCode::kResourceExhausted;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case EIO:
      return absl::StatusCode::kDataLoss;
    case EEXIST:
      return absl::StatusCode::kAlreadyExists;
    case ENOTDIR:
    case EISDIR:
    case ENOTEMPTY:
      return absl::StatusCode::kFailedPrecondition;
    default:
      return absl::StatusCode::kInternal;
  }
}

absl::Status Failed(absl::string_view operation, absl::string_view path) {
  const int error = errno;
  return absl::Status(CodeOf(error),
                      absl::StrCat("cannot ", operation, " ", path, ": ", std::strerror(error)));
}

class File {
 public:
  File(const std::string& path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC, 0644)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }

 private:
  const int fd_;
};

absl::Status WriteAll(const File& file, absl::string_view contents, const std::string& path) {
  while (!contents.empty()) {
    const ssize_t written = write(file.fd(), contents.data(), contents.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failed("write", path);
    contents.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status Sync(const std::string& path, int flags) {
  const File file(path, flags);
  if (!file.is_open()) return Failed("open", path);
  if (fsync(file.fd()) != 0) return Failed("sync", path);
  return absl::OkStatus();
}

class RealFileSystem final : public FileSystem {
 public:
  absl::Status CreateFolder(const std::string& path) override {
    if (mkdir(path.c_str(), 0755) == 0) return SyncFolder(FolderOf(path));
    if (errno == EEXIST) return CheckIsFolder(path);
    if (errno != ENOENT || FolderOf(path) == path) return Failed("create folder", path);
    WEIR_RETURN_IF_ERROR(CreateFolder(FolderOf(path)));
    if (mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return Failed("create folder", path);
    return SyncFolder(FolderOf(path));
  }

  absl::Status WriteFile(const std::string& path, absl::string_view contents) override {
    const File file(path, O_WRONLY | O_CREAT | O_TRUNC);
    if (!file.is_open()) return Failed("create", path);
    return WriteAll(file, contents, path);
  }

  absl::Status SyncFile(const std::string& path) override { return Sync(path, O_RDONLY); }
  absl::Status SyncFolder(const std::string& path) override {
    return Sync(path, O_RDONLY | O_DIRECTORY);
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    return Failed("rename", absl::StrCat(from, " to ", to));
  }

  absl::Status RemoveFile(const std::string& path) override {
    if (unlink(path.c_str()) != 0) return Failed("remove", path);
    return absl::OkStatus();
  }

  absl::Status RemoveTree(const std::string& path) override {
    struct stat info;
    if (lstat(path.c_str(), &info) != 0) {
      return errno == ENOENT ? absl::OkStatus() : Failed("look at", path);
    }
    // Links are removed, never followed.
    if (!S_ISDIR(info.st_mode)) return RemoveFile(path);
    WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> names, List(path));
    for (const std::string& name : names) {
      WEIR_RETURN_IF_ERROR(RemoveTree(absl::StrCat(path, "/", name)));
    }
    if (rmdir(path.c_str()) != 0 && errno != ENOENT) return Failed("remove folder", path);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(path.c_str()), closedir);
    if (folder == nullptr) return Failed("list", path);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = readdir(folder.get())) {
      const absl::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
      errno = 0;
    }
    if (errno != 0) return Failed("list", path);
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::StatusOr<uint64_t> FileSize(const std::string& path) override {
    struct stat info;
    if (stat(path.c_str(), &info) != 0) return Failed("look at", path);
    return static_cast<uint64_t>(info.st_size);
  }

  bool Exists(const std::string& path) override {
    struct stat info;
    return lstat(path.c_str(), &info) == 0;
  }

  absl::StatusOr<uint64_t> FreeBytes(const std::string& path) override {
    struct statvfs info;
    if (statvfs(path.c_str(), &info) != 0) return Failed("ask for the free space of", path);
    return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
  }

  absl::Status Scan(const std::string& path,
                    absl::FunctionRef<void(absl::Span<const std::byte>)> consume) override {
    const File file(path, O_RDONLY);
    if (!file.is_open()) return Failed("open", path);
    posix_fadvise(file.fd(), 0, 0, POSIX_FADV_SEQUENTIAL);
    std::vector<std::byte> buffer(kScanBytes);
    for (;;) {
      const ssize_t count = read(file.fd(), buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return Failed("read", path);
      if (count == 0) return absl::OkStatus();
      consume(absl::MakeConstSpan(buffer.data(), static_cast<size_t>(count)));
    }
  }

 private:
  static absl::Status CheckIsFolder(const std::string& path) {
    struct stat info;
    if (stat(path.c_str(), &info) != 0) return Failed("look at", path);
    if (S_ISDIR(info.st_mode)) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("cannot create folder ", path, ": a file is in its place"));
  }
};

}  // namespace

absl::StatusOr<std::string> FileSystem::ReadFile(const std::string& path, uint64_t max_bytes) {
  WEIR_ASSIGN_OR_RETURN(const uint64_t size, FileSize(path));
  if (size > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, " has ", size, " bytes; at most ", max_bytes, " are expected"));
  }
  std::string contents;
  contents.reserve(size);
  WEIR_RETURN_IF_ERROR(Scan(path, [&](absl::Span<const std::byte> piece) {
    contents.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }));
  return contents;
}

absl::Status FileSystem::WriteDurably(const std::string& path, absl::string_view contents) {
  WEIR_RETURN_IF_ERROR(WriteFile(path, contents));
  WEIR_RETURN_IF_ERROR(SyncFile(path));
  return SyncFolder(FolderOf(path));
}

FileSystem& FileSystem::Real() {
  static RealFileSystem files;
  return files;
}

std::string FolderOf(absl::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return ".";
  return slash == 0 ? "/" : std::string(path.substr(0, slash));
}

}  // namespace weir
