// SPDX-License-Identifier: Apache-2.0
#include "coordinator/rocks_state_store.h"

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace weir {
namespace {

absl::Status FromRocks(const rocksdb::Status& status, const std::string& folder) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = status.ToString();
  const std::string message = absl::StrCat("coordinator state in ", folder, ": ", text);
  if (status.IsCorruption()) return absl::DataLossError(message);
  if (status.IsIOError() && absl::StrContains(text, "lock")) {
    return absl::FailedPreconditionError(
        absl::StrCat("the data directory is in use by another coordinator (", folder,
                     "); stop it, or give this one a --data-dir of its own"));
  }
  return absl::UnavailableError(message);
}

rocksdb::Options StoreOptions(rocksdb::Env* env) {
  rocksdb::Options options;
  if (env != nullptr) options.env = env;
  options.create_if_missing = true;
  options.compression = rocksdb::kNoCompression;
  options.write_buffer_size = 4 << 20;
  options.keep_log_file_num = 2;
  options.max_background_jobs = 1;
  options.max_open_files = 64;
  rocksdb::BlockBasedTableOptions table;
  table.checksum = rocksdb::kXXH3;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RocksStateStore>> RocksStateStore::Open(const std::string& folder,
                                                                       rocksdb::Env* env) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat("cannot create ", folder, ": ", error.message()));
  }
  rocksdb::DB* db = nullptr;
  const absl::Status status = FromRocks(rocksdb::DB::Open(StoreOptions(env), folder, &db), folder);
  if (!status.ok()) return status;
  return std::unique_ptr<RocksStateStore>(
      new RocksStateStore(folder, std::unique_ptr<rocksdb::DB>(db)));
}

RocksStateStore::RocksStateStore(std::string folder, std::unique_ptr<rocksdb::DB> db)
    : folder_(std::move(folder)), db_(std::move(db)) {}
RocksStateStore::~RocksStateStore() = default;

absl::StatusOr<std::map<std::string, std::string>> RocksStateStore::Load() {
  std::map<std::string, std::string> all;
  const std::unique_ptr<rocksdb::Iterator> entry(db_->NewIterator(rocksdb::ReadOptions()));
  for (entry->SeekToFirst(); entry->Valid(); entry->Next()) {
    all.emplace(entry->key().ToString(), entry->value().ToString());
  }
  const absl::Status status = FromRocks(entry->status(), folder_);
  if (!status.ok()) return status;
  return all;
}

absl::Status RocksStateStore::Write(const StateChanges& changes) {
  rocksdb::WriteBatch batch;
  for (const auto& [key, value] : changes) {
    const rocksdb::Status status = value ? batch.Put(key, *value) : batch.Delete(key);
    if (!status.ok()) return FromRocks(status, folder_);
  }
  rocksdb::WriteOptions options;
  options.sync = true;
  const rocksdb::Status written = db_->Write(options, &batch);
  if (written.ok()) return absl::OkStatus();
  // After a failed write RocksDB refuses more until it is told that the cause may be gone.
  db_->Resume().PermitUncheckedError();
  return FromRocks(written, folder_);
}

}  // namespace weir
