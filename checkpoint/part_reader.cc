// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/part_reader.h"

#include <rocksdb/db.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "checkpoint/digest.h"
#include "checkpoint/part_format.h"
#include "common/status_macros.h"

namespace weir {
namespace {

constexpr size_t kReadAheadBytes = 4 << 20;

absl::Status CheckFile(FileSystem& files, const std::string& folder, const v1::PartFile& listed) {
  if (listed.name().empty() || listed.name().find('/') != std::string::npos) {
    return absl::DataLossError(
        absl::StrCat("the part ", folder, " lists a file with the name '", listed.name(), "'"));
  }
  const std::string path = absl::StrCat(folder, "/", listed.name());
  const absl::StatusOr<FileDigest> found = DigestFile(files, path);
  if (absl::IsNotFound(found.status()))
    return absl::DataLossError(absl::StrCat(path, " is missing"));
  if (!found.ok()) return found.status();
  if (found->size != listed.size()) {
    return absl::DataLossError(absl::StrCat(path, " is damaged: it has ", found->size,
                                            " bytes and should have ", listed.size()));
  }
  if (found->xxh3 != listed.xxh3()) {
    return absl::DataLossError(absl::StrCat(path, " is damaged: its checksum does not match"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<PartReader>> PartReader::Open(
    FileSystem& files, const std::string& folder,
    const google::protobuf::RepeatedPtrField<v1::PartFile>& listed) {
  if (!files.Exists(folder)) {
    return absl::NotFoundError(absl::StrCat("the part ", folder, " is not on this machine"));
  }
  for (const v1::PartFile& file : listed) WEIR_RETURN_IF_ERROR(CheckFile(files, folder, file));
  rocksdb::DB* db = nullptr;
  rocksdb::Options options = PartOptions();
  options.create_if_missing = false;
  const rocksdb::Status opened = rocksdb::DB::OpenForReadOnly(options, folder, &db);
  if (!opened.ok()) {
    // Its files are those that were written, so nothing but damage is left.
    return absl::DataLossError(absl::StrCat("cannot open ", folder, ": ", opened.ToString()));
  }
  return std::unique_ptr<PartReader>(new PartReader(folder, std::unique_ptr<rocksdb::DB>(db)));
}

PartReader::PartReader(std::string folder, std::unique_ptr<rocksdb::DB> db)
    : folder_(std::move(folder)), db_(std::move(db)) {}

PartReader::~PartReader() = default;

absl::Status PartReader::ReadShard(absl::string_view id, ShardId shard, Consume consume) const {
  const std::string prefix = PartKeyPrefix(id, shard);
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  options.fill_cache = false;
  options.readahead_size = kReadAheadBytes;
  const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(options));
  for (at->Seek(prefix); at->Valid(); at->Next()) {
    const absl::string_view key(at->key().data(), at->key().size());
    const std::optional<uint64_t> chunk = ChunkOfPartKey(key, prefix);
    if (!chunk.has_value()) break;
    WEIR_RETURN_IF_ERROR(
        consume(*chunk, absl::string_view(at->value().data(), at->value().size())));
  }
  return FromRocksdb(at->status(),
                     absl::StrCat("read shard ", static_cast<uint64_t>(shard), " from"), folder_);
}

absl::StatusOr<std::string> HolderOfShard(const v1::CheckpointPart& part, int position) {
  const bool listed = position < part.id_of_shard_size();
  const uint32_t index = listed ? part.id_of_shard(position) : 0;
  if (position >= part.shards_size() || index >= static_cast<uint32_t>(part.ids_size()) ||
      (part.id_of_shard_size() > 0 && !listed)) {
    return absl::DataLossError(
        absl::StrCat("the part ", part.directory(),
                     " does not say which checkpoint holds its shard number ", position));
  }
  return part.ids(static_cast<int>(index));
}

}  // namespace weir
