// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/chunk_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "checkpoint/preamble.h"
#include "proto/dtype.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;

std::vector<std::byte> Bytes(size_t count, int first) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(first + i);
  return bytes;
}

// Three f32 elements with two slots that lie 16 bytes apart in memory.
struct Sample {
  std::vector<std::byte> weights = Bytes(12, 1);
  std::vector<std::byte> slots = Bytes(28, 100);
  ChunkRecord record{.shard = ShardId{uint64_t{1} << 40},
                     .chunk = (uint64_t{1} << 33) + 1,
                     .dtype = v1::DTYPE_F32,
                     .initialised = true,
                     .elements = 3,
                     .version = 77,
                     .examples = uint64_t{1} << 50,
                     .weights = weights,
                     .slot_count = 2,
                     .slot_stride_bytes = 16,
                     .slots = slots};
};

std::string Encoded(const ChunkRecord& record) {
  std::string bytes;
  WEIR_EXPECT_OK(EncodeChunkRecord(record, bytes));
  return bytes;
}

TEST(ChunkRecord, RoundTripsAndClosesTheGapsBetweenSlots) {
  const Sample sample;
  const std::string bytes = Encoded(sample.record);
  EXPECT_EQ(bytes.size(), 96 + 12 + 2 * 12);
  WEIR_ASSERT_OK_AND_ASSIGN(const ChunkRecord back, DecodeChunkRecord(bytes, "r"));
  EXPECT_EQ(back.shard, sample.record.shard);
  EXPECT_EQ(back.chunk, sample.record.chunk);
  EXPECT_EQ(back.dtype, v1::DTYPE_F32);
  EXPECT_TRUE(back.initialised);
  EXPECT_EQ(back.elements, 3);
  EXPECT_EQ(back.version, 77);
  EXPECT_EQ(back.examples, uint64_t{1} << 50);
  EXPECT_THAT(back.weights, ElementsAreArray(sample.weights));
  EXPECT_EQ(back.slot_count, 2);
  EXPECT_EQ(back.slot_stride_bytes, 12);
  EXPECT_THAT(back.slots.subspan(0, 12), ElementsAreArray(Bytes(12, 100)));
  EXPECT_THAT(back.slots.subspan(12, 12), ElementsAreArray(Bytes(12, 116)));
}

TEST(ChunkRecord, UninitialisedChunksHaveNoBytes) {
  const ChunkRecord record{.shard = ShardId{3}, .dtype = v1::DTYPE_F64, .elements = 9};
  WEIR_ASSERT_OK_AND_ASSIGN(const ChunkRecord back, DecodeChunkRecord(Encoded(record), "r"));
  EXPECT_FALSE(back.initialised);
  EXPECT_EQ(back.elements, 9);
  EXPECT_TRUE(back.weights.empty());
}

TEST(ChunkRecord, AbsentSlotsStayAbsent) {
  Sample sample;
  sample.record.slot_count = 0;
  sample.record.slots = {};
  const std::string bytes = Encoded(sample.record);
  WEIR_ASSERT_OK_AND_ASSIGN(const ChunkRecord back, DecodeChunkRecord(bytes, "r"));
  EXPECT_EQ(back.slot_count, 0);
  EXPECT_TRUE(back.slots.empty());
  EXPECT_THAT(back.weights, ElementsAreArray(sample.weights));
}

TEST(ChunkRecord, EveryDTypeRoundTrips) {
  for (const v1::DType dtype :
       {v1::DTYPE_F32, v1::DTYPE_F64, v1::DTYPE_I32, v1::DTYPE_I64, v1::DTYPE_BOOL}) {
    const std::vector<std::byte> weights = Bytes(5 * ElementBytes(dtype), 7);
    const ChunkRecord record{
        .dtype = dtype, .initialised = true, .elements = 5, .weights = weights};
    const std::string bytes = Encoded(record);
    WEIR_ASSERT_OK_AND_ASSIGN(const ChunkRecord back, DecodeChunkRecord(bytes, "r"));
    EXPECT_EQ(back.dtype, dtype);
    EXPECT_THAT(back.weights, ElementsAreArray(weights));
  }
}

TEST(ChunkRecord, TheBytesAreThoseOfThePage) {
  // Fields one by one, as docs/checkpoints.md lists them; the digest was computed by libxxhash from
  // a record put together in another language.
  const std::string bytes = Encoded(Sample().record);
  EXPECT_EQ(bytes.substr(0, 8), "WEIRCHNK");
  EXPECT_EQ(LoadU32(bytes.data() + 8), 1);
  EXPECT_EQ(LoadU64(bytes.data() + 24), uint64_t{1} << 40);
  EXPECT_EQ(LoadU64(bytes.data() + 32), (uint64_t{1} << 33) + 1);
  EXPECT_EQ(bytes[40], v1::DTYPE_F32);
  EXPECT_EQ(bytes[41], 1);
  EXPECT_EQ(bytes[42], 2);
  EXPECT_EQ(LoadU64(bytes.data() + 48), 3);
  EXPECT_EQ(LoadU64(bytes.data() + 56), 77);
  EXPECT_EQ(LoadU64(bytes.data() + 64), uint64_t{1} << 50);
  EXPECT_EQ(LoadU64(bytes.data() + 72), 12);
  EXPECT_EQ(LoadU64(bytes.data() + 80), 24);
  EXPECT_EQ(LoadU64(bytes.data() + 16), 0x481d325c6763cda7);
}

TEST(ChunkRecord, EveryTruncationIsDataLoss) {
  const std::string bytes = Encoded(Sample().record);
  for (size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_THAT(DecodeChunkRecord(absl::string_view(bytes).substr(0, size), "shard 5"),
                HasStatus(kDataLoss, HasSubstr("shard 5")))
        << size;
  }
}

TEST(ChunkRecord, EveryFlippedBitIsDataLoss) {
  std::string bytes = Encoded(Sample().record);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    ASSERT_THAT(DecodeChunkRecord(bytes, "shard 5"), HasStatus(kDataLoss, HasSubstr("shard 5")))
        << bit;
    bytes[bit / 8] ^= static_cast<char>(1 << (bit % 8));
  }
}

TEST(ChunkRecord, ANewerFormatIsRefusedWithBothVersions) {
  std::string bytes = Encoded(Sample().record);
  bytes.replace(0, kPreambleBytes, EncodePreamble("WEIRCHNK", 2));
  EXPECT_THAT(DecodeChunkRecord(bytes, "shard 5"),
              HasStatus(absl::StatusCode::kFailedPrecondition,
                        AllOf(HasSubstr("format version 2"), HasSubstr("up to 1"))));
}

TEST(ChunkRecord, SpansThatDoNotFitAreNotWritten) {
  std::string bytes;
  const auto is_refused = HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("3 elements"));
  Sample short_weights;
  short_weights.record.weights = absl::MakeConstSpan(short_weights.weights).subspan(4);
  EXPECT_THAT(EncodeChunkRecord(short_weights.record, bytes), is_refused);
  Sample short_slots;
  short_slots.record.slots = absl::MakeConstSpan(short_slots.slots).subspan(1);
  EXPECT_THAT(EncodeChunkRecord(short_slots.record, bytes), is_refused);
  Sample no_dtype;
  no_dtype.record.dtype = v1::DTYPE_UNSPECIFIED;
  EXPECT_THAT(EncodeChunkRecord(no_dtype.record, bytes), is_refused);
}

TEST(ChunkRecord, IsHeldAgainstTheLayout) {
  const Shard shard{.id = ShardId{2}, .elements = 10, .chunk_elements = 4};
  ChunkRecord record{.shard = ShardId{2}, .chunk = 2, .dtype = v1::DTYPE_F32, .elements = 2};
  WEIR_EXPECT_OK(CheckChunkRecord(record, shard, 2, v1::DTYPE_F32));
  const auto is_refused =
      HasStatus(kDataLoss, AllOf(HasSubstr("chunk 2 of shard 2"), HasSubstr("2 elements")));
  EXPECT_THAT(CheckChunkRecord(record, shard, 2, v1::DTYPE_I32), is_refused);
  record.elements = 4;
  EXPECT_THAT(CheckChunkRecord(record, shard, 2, v1::DTYPE_F32), is_refused);
  record.elements = 2;
  record.chunk = 1;
  EXPECT_THAT(CheckChunkRecord(record, shard, 2, v1::DTYPE_F32), is_refused);
  record.chunk = 2;
  record.shard = ShardId{1};
  EXPECT_THAT(CheckChunkRecord(record, shard, 2, v1::DTYPE_F32), is_refused);
}

}  // namespace
}  // namespace weir
