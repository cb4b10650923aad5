// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "sharding/layout.h"
#include "weir/v1/variables.pb.h"

namespace weir {

// One saved chunk: docs/checkpoints.md. The spans borrow.
struct ChunkRecord {
  ShardId shard{};
  uint64_t chunk = 0;
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  bool initialised = false;
  uint64_t elements = 0;
  uint64_t version = 0;
  uint64_t examples = 0;
  absl::Span<const std::byte> weights = {};  // empty where not initialised
  // Slot k: weights.size() bytes from k * slot_stride_bytes on. None: the optimizer's initial
  // values.
  uint32_t slot_count = 0;
  size_t slot_stride_bytes = 0;  // of a decoded record: weights.size()
  absl::Span<const std::byte> slots = {};
};

// Replaces `to` by the record's bytes.
// Errors: InvalidArgument - the spans do not fit the counts.
absl::Status EncodeChunkRecord(const ChunkRecord& record, std::string& to);

// Errors, naming `where`: DataLoss - damaged; FailedPrecondition - of a newer format. The result's
// spans point into `bytes`.
absl::StatusOr<ChunkRecord> DecodeChunkRecord(absl::string_view bytes, absl::string_view where);

// Whether the record is that of a chunk of this shard. DataLoss: no; names shard and chunk.
absl::Status CheckChunkRecord(const ChunkRecord& record, const Shard& shard, uint64_t chunk,
                              v1::DType dtype);

}  // namespace weir
