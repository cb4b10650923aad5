// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/chunk_record.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "checkpoint/digest.h"
#include "checkpoint/preamble.h"
#include "common/status_macros.h"
#include "proto/dtype.h"

namespace weir {
namespace {

constexpr absl::string_view kMagic = "WEIRCHNK";
constexpr size_t kHeaderBytes = 96;
constexpr size_t kDigestOffset = kPreambleBytes;
constexpr size_t kAfterDigest = kDigestOffset + 8;
constexpr uint8_t kInitialised = 1;

absl::Status Damaged(absl::string_view where, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(where, " is damaged: ", what));
}

absl::Status CheckSpans(const ChunkRecord& record) {
  const uint64_t expected = record.initialised ? record.elements * ElementBytes(record.dtype) : 0;
  const uint64_t slots_end =
      record.slot_count == 0
          ? 0
          : (record.slot_count - 1) * record.slot_stride_bytes + record.weights.size();
  if (ElementBytes(record.dtype) > 0 && record.weights.size() == expected &&
      record.slots.size() >= slots_end && record.slot_count <= UINT16_MAX) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("chunk ", record.chunk, " of shard ", static_cast<uint64_t>(record.shard),
                   " has ", record.weights.size(), " bytes of weights and ", record.slots.size(),
                   " of ", record.slot_count, " slots for ", record.elements, " elements of dtype ",
                   v1::DType_Name(record.dtype)));
}

void Append(std::string& to, absl::Span<const std::byte> bytes) {
  to.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

absl::Span<const std::byte> BytesOf(absl::string_view bytes) {
  return absl::MakeConstSpan(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size());
}

uint64_t DigestOf(absl::string_view bytes) {
  return Digest().Update(bytes.substr(0, kDigestOffset)).Update(bytes.substr(kAfterDigest)).value();
}

// The header's fields, as docs/checkpoints.md numbers them.
struct Header {
  uint64_t shard, chunk;
  uint8_t dtype, flags;
  uint32_t slot_count;
  uint64_t elements, version, examples, weights_bytes, slots_bytes;
};

Header LoadHeader(absl::string_view bytes) {
  const char* at = bytes.data();
  const uint32_t kinds = LoadU32(at + 40);
  return Header{.shard = LoadU64(at + 24),
                .chunk = LoadU64(at + 32),
                .dtype = static_cast<uint8_t>(kinds),
                .flags = static_cast<uint8_t>(kinds >> 8),
                .slot_count = kinds >> 16,
                .elements = LoadU64(at + 48),
                .version = LoadU64(at + 56),
                .examples = LoadU64(at + 64),
                .weights_bytes = LoadU64(at + 72),
                .slots_bytes = LoadU64(at + 80)};
}

// The digest matched, so this fails only for what a wrong writer made; it is checked all the same,
// because sizes from a disk decide where memory is read.
absl::Status CheckSizes(const Header& header, size_t body_bytes, absl::string_view where) {
  const uint64_t element_bytes = ElementBytes(static_cast<v1::DType>(header.dtype));
  if (element_bytes == 0) return Damaged(where, "its dtype is unknown");
  if (header.weights_bytes > body_bytes ||
      header.slots_bytes != body_bytes - header.weights_bytes) {
    return Damaged(where, "its lengths do not add up");
  }
  const bool initialised = (header.flags & kInitialised) != 0;
  // By division: a product could overflow.
  if (header.weights_bytes % element_bytes != 0 ||
      header.weights_bytes / element_bytes != (initialised ? header.elements : 0)) {
    return Damaged(where, "its weights do not fit its elements");
  }
  if (header.slots_bytes != header.slot_count * header.weights_bytes) {
    return Damaged(where, "its slots do not fit its weights");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status EncodeChunkRecord(const ChunkRecord& record, std::string& to) {
  WEIR_RETURN_IF_ERROR(CheckSpans(record));
  const size_t weights_bytes = record.weights.size();
  static const std::string preamble = EncodePreamble(kMagic);
  to.clear();
  to.reserve(kHeaderBytes + (1 + record.slot_count) * weights_bytes);
  to += preamble;
  AppendU64(to, 0);  // the digest, below
  AppendU64(to, static_cast<uint64_t>(record.shard));
  AppendU64(to, record.chunk);
  AppendU32(to, static_cast<uint32_t>(record.dtype) |
                    static_cast<uint32_t>(record.initialised ? kInitialised : 0) << 8 |
                    record.slot_count << 16);
  AppendU32(to, 0);
  AppendU64(to, record.elements);
  AppendU64(to, record.version);
  AppendU64(to, record.examples);
  AppendU64(to, weights_bytes);
  AppendU64(to, record.slot_count * weights_bytes);
  AppendU64(to, 0);
  Append(to, record.weights);
  for (uint32_t slot = 0; slot < record.slot_count; ++slot) {
    Append(to, record.slots.subspan(slot * record.slot_stride_bytes, weights_bytes));
  }
  const uint64_t digest = DigestOf(to);
  std::memcpy(to.data() + kDigestOffset, &digest, sizeof(digest));
  return absl::OkStatus();
}

absl::StatusOr<ChunkRecord> DecodeChunkRecord(absl::string_view bytes, absl::string_view where) {
  WEIR_RETURN_IF_ERROR(CheckPreamble(bytes, kMagic, where));
  if (bytes.size() < kHeaderBytes) return Damaged(where, "it is cut short");
  if (DigestOf(bytes) != LoadU64(bytes.data() + kDigestOffset)) {
    return Damaged(where, "its checksum does not match");
  }
  const Header header = LoadHeader(bytes);
  const absl::Span<const std::byte> body = BytesOf(bytes.substr(kHeaderBytes));
  WEIR_RETURN_IF_ERROR(CheckSizes(header, body.size(), where));
  return ChunkRecord{.shard = ShardId{header.shard},
                     .chunk = header.chunk,
                     .dtype = static_cast<v1::DType>(header.dtype),
                     .initialised = (header.flags & kInitialised) != 0,
                     .elements = header.elements,
                     .version = header.version,
                     .examples = header.examples,
                     .weights = body.subspan(0, header.weights_bytes),
                     .slot_count = header.slot_count,
                     .slot_stride_bytes = static_cast<size_t>(header.weights_bytes),
                     .slots = body.subspan(header.weights_bytes)};
}

absl::Status CheckChunkRecord(const ChunkRecord& record, const Shard& shard, uint64_t chunk,
                              v1::DType dtype) {
  const uint64_t first = chunk * shard.chunk_elements;
  const uint64_t elements =
      first < shard.elements ? std::min(shard.chunk_elements, shard.elements - first) : 0;
  if (record.shard == shard.id && record.chunk == chunk && record.dtype == dtype &&
      record.elements == elements && elements > 0) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat("chunk ", chunk, " of shard ", static_cast<uint64_t>(shard.id), ": ", elements,
                   " elements of ", v1::DType_Name(dtype), " are expected; the record is of chunk ",
                   record.chunk, " of shard ", static_cast<uint64_t>(record.shard), " with ",
                   record.elements, " of ", v1::DType_Name(record.dtype)));
}

}  // namespace weir
