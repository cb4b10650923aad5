// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fake_file_system.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"

namespace weir {

struct FakeFileSystem::Node {
  bool is_folder = false;
  std::string data;
  std::string synced_data;
  std::map<std::string, NodeRef> names;
  std::map<std::string, NodeRef> synced_names;
};

namespace {

std::string BaseOf(absl::string_view path) {
  return std::string(path.substr(path.rfind('/') + 1));
}

absl::Status NoSuch(absl::string_view what, absl::string_view path) {
  return absl::NotFoundError(absl::StrCat("no ", what, " ", path));
}

}  // namespace

FakeFileSystem::FakeFileSystem() : root_(std::make_shared<Node>()) {
  root_->is_folder = true;
}
FakeFileSystem::~FakeFileSystem() = default;

std::vector<std::string> FakeFileSystem::operations() const {
  MutexLock lock(mutex_);
  return operations_;
}

void FakeFileSystem::FailNext(std::string operation, absl::Status error) {
  MutexLock lock(mutex_);
  failures_.emplace_back(std::move(operation), std::move(error));
}

void FakeFileSystem::StopAfter(uint64_t count) {
  MutexLock lock(mutex_);
  left_ = count;
}

void FakeFileSystem::Restart(Loss loss) {
  MutexLock lock(mutex_);
  left_ = UINT64_MAX;
  Lose(*root_, loss);
}

void FakeFileSystem::SetFreeBytes(uint64_t bytes) {
  MutexLock lock(mutex_);
  free_bytes_ = bytes;
}

void FakeFileSystem::FlipBit(const std::string& path, uint64_t bit) {
  MutexLock lock(mutex_);
  const NodeRef node = Find(path);
  if (node != nullptr) node->data.at(bit / 8) ^= static_cast<char>(1 << (bit % 8));
}

void FakeFileSystem::Truncate(const std::string& path, uint64_t size) {
  MutexLock lock(mutex_);
  const NodeRef node = Find(path);
  if (node != nullptr) node->data.resize(size);
}

void FakeFileSystem::Lose(Node& node, Loss loss) {
  if (loss == Loss::kData || loss == Loss::kDataAndNames) node.data = node.synced_data;
  if (loss == Loss::kNames || loss == Loss::kDataAndNames) node.names = node.synced_names;
  for (auto& [name, child] : node.names) Lose(*child, loss);
}

absl::Status FakeFileSystem::Gate(const std::string& operation, const std::string& path) {
  if (left_ == 0)
    return absl::InternalError(absl::StrCat("stopped before: ", operation, " ", path));
  if (left_ != UINT64_MAX) --left_;
  operations_.push_back(absl::StrCat(operation, " ", path));
  for (auto failure = failures_.begin(); failure != failures_.end(); ++failure) {
    if (!absl::StartsWith(operations_.back(), failure->first)) continue;
    const absl::Status error = failure->second;
    failures_.erase(failure);
    return error;
  }
  return absl::OkStatus();
}

FakeFileSystem::NodeRef FakeFileSystem::Find(absl::string_view path) const {
  NodeRef node = root_;
  for (const absl::string_view name : absl::StrSplit(path, '/', absl::SkipEmpty())) {
    const auto child = node->names.find(std::string(name));
    if (child == node->names.end()) return nullptr;
    node = child->second;
  }
  return node;
}

absl::StatusOr<FakeFileSystem::NodeRef> FakeFileSystem::FindFile(absl::string_view path) const {
  NodeRef node = Find(path);
  if (node == nullptr || node->is_folder) return NoSuch("file", path);
  return node;
}

absl::StatusOr<FakeFileSystem::NodeRef> FakeFileSystem::FindFolder(absl::string_view path) const {
  NodeRef node = Find(path);
  if (node == nullptr || !node->is_folder) return NoSuch("folder", path);
  return node;
}

absl::Status FakeFileSystem::CreateFolder(const std::string& path) {
  MutexLock lock(mutex_);
  WEIR_RETURN_IF_ERROR(Gate("mkdir", path));
  NodeRef node = root_;
  for (const absl::string_view name : absl::StrSplit(path, '/', absl::SkipEmpty())) {
    NodeRef& child = node->names[std::string(name)];
    if (child == nullptr) {
      child = std::make_shared<Node>();
      child->is_folder = true;
    }
    if (!child->is_folder) return absl::FailedPreconditionError(absl::StrCat(path, ": a file"));
    node->synced_names[std::string(name)] = child;
    node = child;
  }
  return absl::OkStatus();
}

absl::Status FakeFileSystem::WriteFile(const std::string& path, absl::string_view contents) {
  MutexLock lock(mutex_);
  const absl::Status gate = Gate("write", path);
  WEIR_ASSIGN_OR_RETURN(const NodeRef folder, FindFolder(FolderOf(path)));
  NodeRef& file = folder->names[BaseOf(path)];
  if (file == nullptr) file = std::make_shared<Node>();
  file->data = std::string(gate.ok() ? contents : contents.substr(0, contents.size() / 2));
  return gate;
}

absl::Status FakeFileSystem::SyncFile(const std::string& path) {
  MutexLock lock(mutex_);
  WEIR_RETURN_IF_ERROR(Gate("sync", path));
  WEIR_ASSIGN_OR_RETURN(const NodeRef file, FindFile(path));
  file->synced_data = file->data;
  return absl::OkStatus();
}

absl::Status FakeFileSystem::SyncFolder(const std::string& path) {
  MutexLock lock(mutex_);
  WEIR_RETURN_IF_ERROR(Gate("sync folder", path));
  WEIR_ASSIGN_OR_RETURN(const NodeRef folder, FindFolder(path));
  folder->synced_names = folder->names;
  return absl::OkStatus();
}

absl::Status FakeFileSystem::Rename(const std::string& from, const std::string& to) {
  MutexLock lock(mutex_);
  WEIR_RETURN_IF_ERROR(Gate("rename", absl::StrCat(from, " to ", to)));
  const NodeRef node = Find(from);
  if (node == nullptr) return NoSuch("file", from);
  WEIR_ASSIGN_OR_RETURN(const NodeRef source, FindFolder(FolderOf(from)));
  WEIR_ASSIGN_OR_RETURN(const NodeRef target, FindFolder(FolderOf(to)));
  source->names.erase(BaseOf(from));
  target->names[BaseOf(to)] = node;
  return absl::OkStatus();
}

absl::Status FakeFileSystem::RemoveFile(const std::string& path) {
  MutexLock lock(mutex_);
  WEIR_RETURN_IF_ERROR(Gate("remove", path));
  WEIR_RETURN_IF_ERROR(FindFile(path).status());
  Find(FolderOf(path))->names.erase(BaseOf(path));
  return absl::OkStatus();
}

absl::Status FakeFileSystem::RemoveTree(const std::string& path) {
  MutexLock lock(mutex_);
  WEIR_RETURN_IF_ERROR(Gate("remove tree", path));
  const NodeRef folder = Find(FolderOf(path));
  if (folder != nullptr) folder->names.erase(BaseOf(path));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> FakeFileSystem::List(const std::string& path) {
  MutexLock lock(mutex_);
  WEIR_ASSIGN_OR_RETURN(const NodeRef folder, FindFolder(path));
  std::vector<std::string> names;
  for (const auto& [name, node] : folder->names) names.push_back(name);
  return names;
}

absl::StatusOr<uint64_t> FakeFileSystem::FileSize(const std::string& path) {
  MutexLock lock(mutex_);
  WEIR_ASSIGN_OR_RETURN(const NodeRef file, FindFile(path));
  return file->data.size();
}

bool FakeFileSystem::Exists(const std::string& path) {
  MutexLock lock(mutex_);
  return Find(path) != nullptr;
}

absl::StatusOr<uint64_t> FakeFileSystem::FreeBytes(const std::string&) {
  MutexLock lock(mutex_);
  return free_bytes_;
}

absl::Status FakeFileSystem::Scan(const std::string& path,
                                  absl::FunctionRef<void(absl::Span<const std::byte>)> consume) {
  std::string data;
  {
    MutexLock lock(mutex_);
    WEIR_ASSIGN_OR_RETURN(const NodeRef file, FindFile(path));
    data = file->data;
  }
  consume(absl::MakeConstSpan(reinterpret_cast<const std::byte*>(data.data()), data.size()));
  return absl::OkStatus();
}

}  // namespace weir
