// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/part_writer.h"

#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/utilities/checkpoint.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/digest.h"
#include "checkpoint/part_format.h"
#include "checkpoint/unsynced_env.h"
#include "common/status_macros.h"

namespace weir {
namespace {

// Indexes, headers and RocksDB's own files, beside weights and slots.
constexpr uint64_t kRoomForTheRest = 4 << 20;

rocksdb::Slice SliceOf(const std::string& bytes) {
  return {bytes.data(), bytes.size()};
}

absl::StatusOr<std::unique_ptr<rocksdb::DB>> OpenLive(FileSystem& files, const std::string& path,
                                                      rocksdb::Env& env) {
  rocksdb::DB* db = nullptr;
  rocksdb::Options options = PartOptions();
  options.env = &env;
  if (!rocksdb::DB::Open(options, path, &db).ok()) {
    // Nothing is ever restored from it: parts have links of their own.
    WEIR_RETURN_IF_ERROR(files.RemoveTree(path));
    WEIR_RETURN_IF_ERROR(FromRocksdb(rocksdb::DB::Open(options, path, &db), "open", path));
  }
  return std::unique_ptr<rocksdb::DB>(db);
}

// Drops the files whose keys begin with another id than `id`. Each file has keys of one id.
absl::Status DropOthers(rocksdb::DB& db, const std::string& id, const std::string& path) {
  const std::string kept = id + '\0';
  std::vector<rocksdb::LiveFileMetaData> live;
  db.GetLiveFilesMetaData(&live);
  for (const rocksdb::LiveFileMetaData& file : live) {
    if (absl::StartsWith(file.smallestkey, kept)) continue;
    const rocksdb::Slice first = SliceOf(file.smallestkey);
    const rocksdb::Slice last = SliceOf(file.largestkey);
    WEIR_RETURN_IF_ERROR(
        FromRocksdb(rocksdb::DeleteFilesInRange(&db, db.DefaultColumnFamily(), &first, &last),
                    "drop old files of", path));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<PartWriter>> PartWriter::Create(Options options) {
  FileSystem& files = *options.files;
  WEIR_ASSIGN_OR_RETURN(PartFolder folder, PartFolder::Parse(options.root, options.directory));
  if (files.Exists(folder.path)) {
    return absl::FailedPreconditionError(
        absl::StrCat("there is a part ", folder.path, " already; ids are used once"));
  }
  WEIR_RETURN_IF_ERROR(files.CreateFolder(folder.job_folder));
  WEIR_RETURN_IF_ERROR(files.RemoveTree(folder.unfinished));
  WEIR_ASSIGN_OR_RETURN(const uint64_t free, files.FreeBytes(folder.job_folder));
  const uint64_t needed = options.expected_bytes + options.expected_bytes / 64 + kRoomForTheRest;
  if (free < needed) {
    return absl::ResourceExhaustedError(absl::StrCat("no room for the part ", folder.path, ": ",
                                                     needed, " bytes are needed, ", free,
                                                     " are free"));
  }
  return std::unique_ptr<PartWriter>(new PartWriter(std::move(options), std::move(folder)));
}

PartWriter::PartWriter(Options options, PartFolder folder)
    : options_(std::move(options)), folder_(std::move(folder)) {}

PartWriter::~PartWriter() {
  file_.reset();
  RemoveFiles();
}

void PartWriter::RemoveFiles() {
  // What cannot be removed now is swept at the next start.
  for (const std::string& path : paths_) options_.files->RemoveTree(path).IgnoreError();
  if (!finished_) options_.files->RemoveTree(folder_.unfinished).IgnoreError();
}

absl::Status PartWriter::OpenFile() {
  paths_.push_back(absl::StrCat(folder_.path, ".", paths_.size(), ".sst.tmp"));
  // The pages stay cached: the file is read once more for its digest.
  constexpr bool kDropPages = false;
  file_ = std::make_unique<rocksdb::SstFileWriter>(rocksdb::EnvOptions(), PartOptions(), nullptr,
                                                   kDropPages);
  bytes_in_file_ = 0;
  return FromRocksdb(file_->Open(paths_.back()), "create", paths_.back());
}

absl::Status PartWriter::CloseFile() {
  if (file_ == nullptr) return absl::OkStatus();
  const std::unique_ptr<rocksdb::SstFileWriter> file = std::move(file_);
  return FromRocksdb(file->Finish(), "finish", paths_.back());
}

absl::Status PartWriter::Add(const ChunkRecord& record) {
  const uint64_t shard = static_cast<uint64_t>(record.shard);
  const bool same_shard = !shards_.empty() && shards_.back() == shard;
  if (!shards_.empty() && (shard < shards_.back() || (same_shard && record.chunk <= last_chunk_))) {
    return absl::InvalidArgumentError(absl::StrCat("chunk ", record.chunk, " of shard ", shard,
                                                   " comes after chunk ", last_chunk_, " of shard ",
                                                   shards_.back()));
  }
  WEIR_RETURN_IF_ERROR(EncodeChunkRecord(record, record_));
  if (file_ != nullptr && bytes_in_file_ >= options_.file_bytes) WEIR_RETURN_IF_ERROR(CloseFile());
  if (file_ == nullptr) WEIR_RETURN_IF_ERROR(OpenFile());
  const std::string key = PartKey(folder_.id, record.shard, record.chunk);
  WEIR_RETURN_IF_ERROR(
      FromRocksdb(file_->Put(SliceOf(key), SliceOf(record_)), "write", paths_.back()));
  if (!same_shard) shards_.push_back(shard);
  last_chunk_ = record.chunk;
  bytes_written_ += record_.size();
  bytes_in_file_ += record_.size();
  return absl::OkStatus();
}

absl::StatusOr<v1::CheckpointPart> PartWriter::Finish() {
  FileSystem& files = *options_.files;
  WEIR_RETURN_IF_ERROR(CloseFile());
  WEIR_RETURN_IF_ERROR(LinkInto(folder_.unfinished));
  v1::CheckpointPart part;
  WEIR_RETURN_IF_ERROR(DescribeAndSync(folder_.unfinished, part));
  WEIR_RETURN_IF_ERROR(files.Rename(folder_.unfinished, folder_.path));
  if (const absl::Status synced = files.SyncFolder(folder_.job_folder); !synced.ok()) {
    files.RemoveTree(folder_.path).IgnoreError();
    return synced;
  }
  finished_ = true;
  part.set_directory(folder_.path);
  part.add_ids(folder_.id);
  part.mutable_shards()->Add(shards_.begin(), shards_.end());
  return part;
}

absl::Status PartWriter::LinkInto(const std::string& folder) {
  const std::string path = folder_.live();
  // What of it is in the part is synced there, by DescribeAndSync; the rest is a cache.
  const std::unique_ptr<rocksdb::Env> env = NewUnsyncedEnv();
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<rocksdb::DB> live,
                        OpenLive(*options_.files, path, *env));
  WEIR_RETURN_IF_ERROR(DropOthers(*live, folder_.id, path));
  if (!paths_.empty()) {
    rocksdb::IngestExternalFileOptions ingest;
    ingest.move_files = true;
    ingest.failed_move_fall_back_to_copy = true;
    ingest.snapshot_consistency = false;
    // The file stays as it was written; nothing overlaps it, so it needs no number.
    ingest.write_global_seqno = false;
    WEIR_RETURN_IF_ERROR(
        FromRocksdb(live->IngestExternalFile(paths_, ingest), "ingest files into", path));
    paths_.clear();
  }
  rocksdb::Checkpoint* made = nullptr;
  WEIR_RETURN_IF_ERROR(
      FromRocksdb(rocksdb::Checkpoint::Create(live.get(), &made), "prepare links from", path));
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
  return FromRocksdb(checkpoint->CreateCheckpoint(folder), "make links in", folder);
}

absl::Status PartWriter::DescribeAndSync(const std::string& folder, v1::CheckpointPart& part) {
  FileSystem& files = *options_.files;
  WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(folder));
  for (const std::string& name : names) {
    const std::string path = absl::StrCat(folder, "/", name);
    WEIR_ASSIGN_OR_RETURN(const FileDigest digest, DigestFile(files, path));
    WEIR_RETURN_IF_ERROR(files.SyncFile(path));
    v1::PartFile& file = *part.add_files();
    file.set_name(name);
    file.set_size(digest.size);
    file.set_xxh3(digest.xxh3);
  }
  return files.SyncFolder(folder);
}

}  // namespace weir
