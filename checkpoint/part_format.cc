// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/part_format.h"

#include <rocksdb/env.h>
#include <rocksdb/table.h>

#include <memory>

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

constexpr size_t kNumberBytes = 8;

void AppendBigEndian(std::string& to, uint64_t value) {
  for (int shift = 56; shift >= 0; shift -= 8) to.push_back(static_cast<char>(value >> shift));
}

// RocksDB would write a file LOG into every folder that it opens, also read-only ones.
class SilentLogger final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

}  // namespace

std::string PartKeyPrefix(absl::string_view id, ShardId shard) {
  std::string key(id);
  key.push_back('\0');
  AppendBigEndian(key, static_cast<uint64_t>(shard));
  return key;
}

std::string PartKey(absl::string_view id, ShardId shard, uint64_t chunk) {
  std::string key = PartKeyPrefix(id, shard);
  AppendBigEndian(key, chunk);
  return key;
}

std::optional<uint64_t> ChunkOfPartKey(absl::string_view key, absl::string_view prefix) {
  if (key.size() != prefix.size() + kNumberBytes || key.substr(0, prefix.size()) != prefix) {
    return std::nullopt;
  }
  uint64_t chunk = 0;
  for (const char byte : key.substr(prefix.size())) chunk = chunk << 8 | static_cast<uint8_t>(byte);
  return chunk;
}

rocksdb::Options PartOptions() {
  rocksdb::BlockBasedTableOptions table;
  table.checksum = rocksdb::kXXH3;
  table.no_block_cache = true;
  rocksdb::Options options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.compression = rocksdb::kNoCompression;
  options.create_if_missing = true;
  options.disable_auto_compactions = true;
  options.paranoid_checks = true;
  options.info_log = std::make_shared<SilentLogger>();
  // A part may travel; which machine wrote it is nobody's business.
  options.db_host_id = "";
  // No threads and no files for statistics in a database that lives for seconds.
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  return options;
}

absl::Status FromRocksdb(const rocksdb::Status& status, absl::string_view operation,
                         absl::string_view path) {
  if (status.ok()) return absl::OkStatus();
  const std::string message =
      absl::StrCat("cannot ", operation, " ", path, ": ", status.ToString());
  if (status.IsNoSpace()) return absl::ResourceExhaustedError(message);
  if (status.IsCorruption() || status.IsIOError()) return absl::DataLossError(message);
  if (status.IsNotFound()) return absl::NotFoundError(message);
  return absl::InternalError(message);
}

}  // namespace weir
