// SPDX-License-Identifier: Apache-2.0
// What earlier builds wrote stays readable, byte for byte.
#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "checkpoint/manifest.h"
#include "checkpoint/part_reader.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/checkpoint/sample_part.h"

namespace weir {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::testing::ElementsAreArray;

TEST(CheckpointFixture, TheFirstFormatIsRead) {
  FileSystem& files = FileSystem::Real();
  const std::string folder = WEIR_FIXTURES_FOLDER "/checkpoint_v1";
  WEIR_ASSERT_OK_AND_ASSIGN(const std::string bytes,
                            files.ReadFile(folder + "/00000001-1.manifest", 1 << 20));
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::Manifest manifest, DecodeManifest(bytes, "the fixture"));
  ASSERT_EQ(manifest.parts_size(), 1);
  const v1::CheckpointPart& part = manifest.parts(0);

  v1::CheckpointPart written;
  *written.mutable_files() = part.files();
  *written.mutable_ids() = part.ids();
  *written.mutable_shards() = part.shards();
  EXPECT_TRUE(MessageDifferencer::Equals(manifest, SamplePart::ManifestOf(written)));

  std::vector<std::string> found;
  WEIR_ASSERT_OK_AND_ASSIGN(const auto reader,
                            PartReader::Open(files, folder + "/part", part.files()));
  for (int i = 0; i < part.shards_size(); ++i) {
    WEIR_ASSERT_OK_AND_ASSIGN(const std::string id, HolderOfShard(part, i));
    WEIR_ASSERT_OK(
        reader->ReadShard(id, ShardId{part.shards(i)}, [&](uint64_t, absl::string_view record) {
          found.emplace_back(record);
          return absl::OkStatus();
        }));
  }
  const SamplePart sample;
  std::vector<std::string> expected;
  for (const ChunkRecord& record : sample.Records()) {
    WEIR_ASSERT_OK(EncodeChunkRecord(record, expected.emplace_back()));
  }
  EXPECT_THAT(found, ElementsAreArray(expected));
}

}  // namespace
}  // namespace weir
