// SPDX-License-Identifier: Apache-2.0
#include "server/part_fetcher.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "checkpoint/part_folder.h"
#include "common/status_macros.h"

namespace weir {
namespace {

constexpr size_t kOpenParts = 4;

// Another list of files is another part, or a request that was made up.
std::string KeyOf(const std::string& folder,
                  const google::protobuf::RepeatedPtrField<v1::PartFile>& listed) {
  std::string key = folder;
  for (const v1::PartFile& file : listed) absl::StrAppend(&key, "\n", file.SerializeAsString());
  return key;
}

}  // namespace

PartFetcher::PartFetcher(FileSystem& files, std::vector<std::string> roots)
    : files_(files), roots_(std::move(roots)) {}

absl::StatusOr<std::shared_ptr<const PartReader>> PartFetcher::Open(
    const std::string& folder, const google::protobuf::RepeatedPtrField<v1::PartFile>& listed) {
  std::string key = KeyOf(folder, listed);
  {
    MutexLock lock(mutex_);
    for (auto part = open_.begin(); part != open_.end(); ++part) {
      if (part->key != key) continue;
      open_.splice(open_.begin(), open_, part);
      return open_.front().reader;
    }
  }
  WEIR_ASSIGN_OR_RETURN(std::shared_ptr<const PartReader> reader,
                        PartReader::Open(files_, folder, listed));
  std::list<OpenPart> closed;  // destroyed, which may wait for the disk, without the lock
  MutexLock lock(mutex_);
  open_.push_front({.key = std::move(key), .reader = reader});
  if (open_.size() > kOpenParts) closed.splice(closed.begin(), open_, std::prev(open_.end()));
  return reader;
}

void PartFetcher::Close() {
  std::list<OpenPart> closed;
  MutexLock lock(mutex_);
  closed.swap(open_);
}

absl::Status PartFetcher::Fetch(const v1::FetchPartRequest& request, PartReader::Consume consume) {
  if (!IsBelow(request.directory(), roots_)) {
    return absl::PermissionDeniedError(
        absl::StrCat(request.directory(), " is not in this server's checkpoint folder"));
  }
  WEIR_ASSIGN_OR_RETURN(const std::shared_ptr<const PartReader> reader,
                        Open(request.directory(), request.files()));
  return reader->ReadShard(request.id(), ShardId{request.shard()}, consume);
}

}  // namespace weir
