// SPDX-License-Identifier: Apache-2.0
// What the writer and the reader of parts must agree on.
#pragma once

#include <rocksdb/options.h>
#include <rocksdb/status.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "sharding/layout.h"

namespace weir {

// <id> 0x00 <shard, big-endian> <chunk, big-endian>
std::string PartKey(absl::string_view id, ShardId shard, uint64_t chunk);
// The keys of all chunks of a shard begin so.
std::string PartKeyPrefix(absl::string_view id, ShardId shard);
// The chunk of a key that begins with `prefix`; nothing where it is no such key.
std::optional<uint64_t> ChunkOfPartKey(absl::string_view key, absl::string_view prefix);

// RocksDB as parts need it: kXXH3, no compression, no compaction, no log files, no block cache.
rocksdb::Options PartOptions();

// ResourceExhausted: no space; DataLoss: corruption or a device's error; NotFound; Internal. Names
// operation and path.
absl::Status FromRocksdb(const rocksdb::Status& status, absl::string_view operation,
                         absl::string_view path);

}  // namespace weir
