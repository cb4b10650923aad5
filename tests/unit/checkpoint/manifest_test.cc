// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "checkpoint/preamble.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/checkpoint/sample_manifest.h"

namespace weir {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::testing::HasSubstr;

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(Manifest, RoundTrips) {
  const v1::Manifest manifest = SampleManifest("00000012-3");
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::Manifest back, DecodeManifest(EncodeManifest(manifest), "m"));
  EXPECT_TRUE(MessageDifferencer::Equals(manifest, back));
}

TEST(Manifest, EveryTruncationIsDataLoss) {
  const std::string bytes = EncodeManifest(SampleManifest("00000012-3"));
  for (size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_THAT(DecodeManifest(bytes.substr(0, size), "file.manifest"),
                HasStatus(kDataLoss, HasSubstr("file.manifest")))
        << size;
  }
}

TEST(Manifest, BytesAfterTheEndAreDataLoss) {
  EXPECT_THAT(DecodeManifest(EncodeManifest(SampleManifest("00000012-3")) + "x", "m"),
              HasStatus(kDataLoss, HasSubstr("m")));
}

TEST(Manifest, EveryFlippedBitIsDataLoss) {
  std::string bytes = EncodeManifest(SampleManifest("00000012-3"));
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    ASSERT_THAT(DecodeManifest(bytes, "file.manifest"),
                HasStatus(kDataLoss, HasSubstr("file.manifest")))
        << bit;
    bytes[bit / 8] ^= static_cast<char>(1 << (bit % 8));
  }
}

TEST(Manifest, ANewerFormatIsRefusedWithBothVersions) {
  std::string bytes = EncodeManifest(SampleManifest("00000012-3"));
  bytes.replace(0, kPreambleBytes, EncodePreamble("WEIRMANI", 7));
  EXPECT_THAT(DecodeManifest(bytes, "file.manifest"),
              HasStatus(absl::StatusCode::kFailedPrecondition,
                        AllOf(HasSubstr("file.manifest"), HasSubstr("format version 7"),
                              HasSubstr("reads up to 1"))));
}

TEST(Manifest, IsWholeWhenEveryShardIsInOnePart) {
  WEIR_EXPECT_OK(CheckManifest(SampleManifest("00000012-3")));
}

TEST(Manifest, AMissingShardIsNamed) {
  v1::Manifest manifest = SampleManifest("00000012-3");
  manifest.mutable_parts(1)->mutable_shards()->RemoveLast();
  EXPECT_THAT(CheckManifest(manifest), HasStatus(kInvalid, HasSubstr("shard 3 is in no part")));
}

TEST(Manifest, AShardInTwoPartsIsNamed) {
  v1::Manifest manifest = SampleManifest("00000012-3");
  manifest.mutable_parts(1)->set_shards(0, 0);
  EXPECT_THAT(CheckManifest(manifest), HasStatus(kInvalid, HasSubstr("shard 0")));
}

TEST(Manifest, AShardThatTheJobDoesNotHaveIsRefused) {
  v1::Manifest manifest = SampleManifest("00000012-3");
  manifest.mutable_parts(0)->add_shards(uint64_t{1} << 40);
  EXPECT_THAT(CheckManifest(manifest), HasStatus(kInvalid, HasSubstr("the job has 4")));
}

TEST(Manifest, PartsOfDifferentCutsAreRefused) {
  v1::Manifest manifest = SampleManifest("00000012-3");
  manifest.mutable_parts(1)->set_cut(8);
  EXPECT_THAT(CheckManifest(manifest),
              HasStatus(kInvalid, HasSubstr("cut is 7 on s0 and 8 on s1")));
}

TEST(Manifest, NamesThatLeaveTheFolderAreRefused) {
  for (const char* name : {"", ".", "..", "a/b", "../a", "/a", ".hidden", "a b", "a\n"}) {
    EXPECT_THAT(CheckFolderName("job", name), HasStatus(kInvalid, HasSubstr("job"))) << name;
  }
  WEIR_EXPECT_OK(CheckFolderName("job", "my-job_2.old"));
}

TEST(CheckpointId, SortsByNumberThenByTerm) {
  EXPECT_EQ(CheckpointId(12, 3), "00000012-3");
  EXPECT_EQ(CheckpointId(123456789, 0x1f), "123456789-1f");
  EXPECT_TRUE(IsOlderCheckpoint("00000009-f", "00000010-1"));
  EXPECT_TRUE(IsOlderCheckpoint("00000009-f", "00000009-10"));
  EXPECT_TRUE(IsOlderCheckpoint("99999999-1", "100000000-1"));
  EXPECT_FALSE(IsOlderCheckpoint("00000009-1", "00000009-1"));
}

TEST(CheckpointId, OthersAreRefused) {
  for (const char* id : {"", "12", "12-3", "00000012", "00000012-", "-3", "0000001x-3",
                         "00000012-G", "00000012-3/..", "99999999999999999999-1"}) {
    EXPECT_THAT(CheckpointNumber(id), HasStatus(kInvalid, HasSubstr(id))) << id;
  }
}

}  // namespace
}  // namespace weir
