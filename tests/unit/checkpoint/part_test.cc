// SPDX-License-Identifier: Apache-2.0
// PartWriter and PartReader, over the machine's files: RocksDB has no others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>

#include "checkpoint/part_folder.h"
#include "checkpoint/part_reader.h"
#include "checkpoint/part_writer.h"
#include "tests/support/fake_file_system.h"
#include "tests/support/forwarding_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/checkpoint/sample_part.h"

namespace weir {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kId[] = "00000001-1";

class PartTest : public ::testing::Test {
 protected:
  PartWriter::Options OptionsFor(const std::string& id) {
    return {.files = &files_, .root = root_, .directory = "job/" + id};
  }
  absl::StatusOr<std::unique_ptr<PartReader>> Open(const v1::CheckpointPart& part) {
    return PartReader::Open(files_, part.directory(), part.files());
  }
  // What a restore would do: everything that the part lists, decoded.
  absl::StatusOr<std::vector<uint64_t>> ReadAll(const v1::CheckpointPart& part) {
    WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<PartReader> reader, Open(part));
    std::vector<uint64_t> versions;
    for (int i = 0; i < part.shards_size(); ++i) {
      WEIR_ASSIGN_OR_RETURN(const std::string id, HolderOfShard(part, i));
      WEIR_RETURN_IF_ERROR(reader->ReadShard(
          id, ShardId{part.shards(i)}, [&](uint64_t, absl::string_view bytes) -> absl::Status {
            WEIR_ASSIGN_OR_RETURN(const ChunkRecord record, DecodeChunkRecord(bytes, "record"));
            versions.push_back(record.version);
            return absl::OkStatus();
          }));
    }
    return versions;
  }
  std::vector<std::string> Names() { return files_.List(root_ + "/job").value(); }

  FileSystem& files_ = FileSystem::Real();
  TempFolder temp_;
  const std::string root_ = temp_ / "server-0";
  const SamplePart sample_{};
};

TEST_F(PartTest, RoundTripsBitForBit) {
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::CheckpointPart part, sample_.Write(OptionsFor(kId)));
  EXPECT_EQ(part.directory(), root_ + "/job/" + kId);
  EXPECT_THAT(part.shards(), ElementsAre(4, 9));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto reader, Open(part));
  std::vector<std::string> found;
  for (const uint64_t shard : part.shards()) {
    WEIR_ASSERT_OK(reader->ReadShard(kId, ShardId{shard}, [&](uint64_t, absl::string_view record) {
      found.emplace_back(record);
      return absl::OkStatus();
    }));
  }
  std::vector<std::string> expected(3);
  const std::vector<ChunkRecord> records = sample_.Records();
  for (size_t i = 0; i < 3; ++i) WEIR_ASSERT_OK(EncodeChunkRecord(records[i], expected[i]));
  EXPECT_THAT(found, ElementsAreArray(expected));
}

class SyncLog final : public ForwardingFileSystem {
 public:
  absl::Status SyncFile(const std::string& path) override {
    lines.push_back("sync " + path);
    return ForwardingFileSystem::SyncFile(path);
  }
  absl::Status SyncFolder(const std::string& path) override {
    lines.push_back("sync " + path);
    return ForwardingFileSystem::SyncFolder(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    lines.push_back("rename " + from);
    return ForwardingFileSystem::Rename(from, to);
  }

  std::vector<std::string> lines;
};

// RocksDB syncs none of them.
TEST_F(PartTest, EveryFileIsSyncedAndThenTheFolderAndThenTheNameOfThePart) {
  SyncLog log;
  PartWriter::Options options = OptionsFor(kId);
  options.files = &log;
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::CheckpointPart part, sample_.Write(options));
  const std::string unfinished = part.directory() + ".tmp";
  std::vector<std::string> expected;
  for (const v1::PartFile& file : part.files()) {
    expected.push_back("sync " + unfinished + "/" + file.name());
  }
  EXPECT_GE(expected.size(), 4);  // records, CURRENT, MANIFEST, OPTIONS
  expected.insert(expected.end(),
                  {"sync " + unfinished, "rename " + unfinished, "sync " + root_ + "/job"});
  EXPECT_EQ(log.lines, expected);
}

TEST_F(PartTest, HoldsOnlyItsOwnCheckpointAndOutlivesTheNextOnes) {
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::CheckpointPart first, sample_.Write(OptionsFor(kId)));
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::CheckpointPart second,
                            sample_.Write(OptionsFor("00000002-1")));
  const auto tables = [](const v1::CheckpointPart& part) {
    return std::count_if(part.files().begin(), part.files().end(), [](const v1::PartFile& file) {
      return file.name().find(".sst") != std::string::npos;
    });
  };
  EXPECT_EQ(tables(first), 1);
  EXPECT_EQ(tables(second), 1);
  WEIR_ASSERT_OK(DropPart(files_, root_, "job/00000002-1"));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto versions, ReadAll(first));
  EXPECT_THAT(versions, ElementsAre(5, 6, 0));
}

TEST_F(PartTest, IsCutIntoFilesOfTheSizeAskedFor) {
  PartWriter::Options options = OptionsFor(kId);
  options.file_bytes = 1;
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::CheckpointPart part, sample_.Write(options));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto versions, ReadAll(part));
  EXPECT_THAT(versions, ElementsAre(5, 6, 0));
  EXPECT_GE(part.files_size(), 6);  // three tables, CURRENT, MANIFEST, OPTIONS
}

TEST_F(PartTest, AServerWithoutShardsHasAnEmptyPart) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto writer, PartWriter::Create(OptionsFor(kId)));
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::CheckpointPart part, writer->Finish());
  WEIR_ASSERT_OK_AND_ASSIGN(const auto versions, ReadAll(part));
  EXPECT_THAT(versions, IsEmpty());
}

TEST_F(PartTest, ADamagedLiveDatabaseIsMadeAnew) {
  WEIR_ASSERT_OK(sample_.Write(OptionsFor(kId)).status());
  WEIR_ASSERT_OK(files_.WriteFile(root_ + "/job/live/CURRENT", "nonsense"));
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::CheckpointPart part, sample_.Write(OptionsFor("00000002-1")));
  WEIR_EXPECT_OK(ReadAll(part).status());
}

TEST_F(PartTest, WhatIsNotFinishedLeavesNothing) {
  {
    WEIR_ASSERT_OK_AND_ASSIGN(const auto writer, PartWriter::Create(OptionsFor(kId)));
    WEIR_ASSERT_OK(writer->Add(sample_.Records()[0]));
  }
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(PartTest, AnIdIsUsedOnce) {
  WEIR_ASSERT_OK(sample_.Write(OptionsFor(kId)).status());
  EXPECT_THAT(PartWriter::Create(OptionsFor(kId)),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr(kId)));
}

TEST_F(PartTest, ChunksOutOfOrderAreRefused) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto writer, PartWriter::Create(OptionsFor(kId)));
  const std::vector<ChunkRecord> records = sample_.Records();
  WEIR_ASSERT_OK(writer->Add(records[1]));
  EXPECT_THAT(writer->Add(records[0]),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("comes after")));
}

TEST_F(PartTest, APartThatDoesNotFitIsRefusedBeforeItIsWritten) {
  PartWriter::Options options = OptionsFor(kId);
  options.expected_bytes = uint64_t{1} << 60;
  EXPECT_THAT(PartWriter::Create(options),
              HasStatus(absl::StatusCode::kResourceExhausted, HasSubstr("are needed")));
}

TEST_F(PartTest, FoldersOutsideTheRootAreRefused) {
  for (const char* directory : {"", "job", "../job/00000001-1", "job/../00000001-1",
                                "/job/00000001-1", "job/live", "a/b/00000001-1"}) {
    EXPECT_THAT(PartFolder::Parse("/root", directory),
                HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("")))
        << directory;
  }
  EXPECT_TRUE(IsBelow("/data/s0/job/x", {"/other", "/data/s0"}));
  EXPECT_FALSE(IsBelow("/data/s0/../s1/job", {"/data/s0"}));
  EXPECT_FALSE(IsBelow("/data/s01/job", {"/data/s0"}));
  EXPECT_FALSE(IsBelow("/data/s0", {"/data/s0"}));
}

TEST_F(PartTest, TheSweepRemovesWhatIsUnfinishedAndNothingElse) {
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::CheckpointPart part, sample_.Write(OptionsFor(kId)));
  WEIR_ASSERT_OK(files_.CreateFolder(root_ + "/job/00000002-1.tmp/x"));
  WEIR_ASSERT_OK(files_.WriteFile(root_ + "/job/00000002-1.0.sst.tmp", "x"));
  WEIR_ASSERT_OK(SweepParts(files_, root_));
  EXPECT_THAT(Names(), ElementsAre(kId, "live"));
  WEIR_EXPECT_OK(ReadAll(part).status());
}

TEST_F(PartTest, DroppingIsIdempotent) {
  WEIR_ASSERT_OK(sample_.Write(OptionsFor(kId)).status());
  WEIR_ASSERT_OK(DropPart(files_, root_, std::string("job/") + kId));
  WEIR_ASSERT_OK(DropPart(files_, root_, std::string("job/") + kId));
  EXPECT_THAT(Names(), ElementsAre("live"));
}

TEST_F(PartTest, APartThatIsElsewhereIsNotFound) {
  v1::CheckpointPart part;
  part.set_directory(temp_ / "nowhere");
  EXPECT_THAT(Open(part), HasStatus(absl::StatusCode::kNotFound, HasSubstr("nowhere")));
}

TEST_F(PartTest, EveryMissingOrCutFileIsNamed) {
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::CheckpointPart part, sample_.Write(OptionsFor(kId)));
  for (const v1::PartFile& file : part.files()) {
    const std::string path = part.directory() + "/" + file.name();
    const auto is_named = HasStatus(absl::StatusCode::kDataLoss, HasSubstr(file.name()));
    WEIR_ASSERT_OK_AND_ASSIGN(const std::string contents, files_.ReadFile(path, 1 << 20));
    WEIR_ASSERT_OK(files_.RemoveFile(path));
    EXPECT_THAT(Open(part), is_named);
    WEIR_ASSERT_OK(files_.WriteFile(path, contents.substr(0, contents.size() - 1)));
    EXPECT_THAT(Open(part), is_named);
    WEIR_ASSERT_OK(files_.WriteFile(path, contents));
  }
  WEIR_EXPECT_OK(Open(part).status());
}

// In memory, where a file is written again in no time: the files are compared before RocksDB sees
// them.
TEST_F(PartTest, FlippedBitsAreFoundAndNamed) {
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::CheckpointPart part, sample_.Write(OptionsFor(kId)));
  FakeFileSystem copy;
  WEIR_ASSERT_OK(copy.CreateFolder(part.directory()));
  std::map<std::string, std::string> contents_of;  // by path
  for (const v1::PartFile& file : part.files()) {
    const std::string path = part.directory() + "/" + file.name();
    WEIR_ASSERT_OK_AND_ASSIGN(contents_of[path], files_.ReadFile(path, 1 << 20));
    WEIR_ASSERT_OK(copy.WriteFile(path, contents_of[path]));
  }
  for (const auto& [path, contents] : contents_of) {
    // Every byte of the small files, every ninth of RocksDB's options.
    for (size_t at = 0; at<contents.size(); at += contents.size()> 2000 ? 9 : 1) {
      std::string damaged = contents;
      damaged[at] ^= static_cast<char>(1 << (at % 8));
      WEIR_ASSERT_OK(copy.WriteFile(path, damaged));
      ASSERT_THAT(PartReader::Open(copy, part.directory(), part.files()),
                  HasStatus(absl::StatusCode::kDataLoss, HasSubstr(path)))
          << at;
    }
    WEIR_ASSERT_OK(copy.WriteFile(path, contents));
  }
}

// Damage that comes after the files were compared is found by RocksDB's checksums or by the
// record's.
TEST_F(PartTest, FlippedBitsAreFoundWithoutTheFilesDigestsToo) {
  WEIR_ASSERT_OK_AND_ASSIGN(v1::CheckpointPart part, sample_.Write(OptionsFor(kId)));
  v1::CheckpointPart unlisted = part;
  unlisted.clear_files();
  WEIR_ASSERT_OK_AND_ASSIGN(const auto intact, ReadAll(unlisted));
  std::mt19937_64 random(1);
  for (const v1::PartFile& file : part.files()) {
    const std::string path = part.directory() + "/" + file.name();
    WEIR_ASSERT_OK_AND_ASSIGN(const std::string contents, files_.ReadFile(path, 1 << 20));
    for (int round = 0; round < 40; ++round) {
      const size_t at = random() % contents.size();
      const char damaged = static_cast<char>(contents[at] ^ (1 << (random() % 8)));
      // One byte in its place: a file that is written anew takes a disk milliseconds.
      std::fstream(path, std::ios::in | std::ios::out | std::ios::binary)
          .seekp(static_cast<std::streamoff>(at))
          .put(damaged);
      const absl::StatusOr<std::vector<uint64_t>> found = ReadAll(unlisted);
      // A record that is there is right; whether one is missing the layout says.
      if (found.ok()) {
        EXPECT_THAT(*found, AnyOf(ElementsAreArray(intact), IsEmpty()));
      }
      std::fstream(path, std::ios::in | std::ios::out | std::ios::binary)
          .seekp(static_cast<std::streamoff>(at))
          .put(contents[at]);
    }
  }
}

TEST(HolderOfShard, IsTheFirstIdUnlessThePartSaysWhich) {
  v1::CheckpointPart part;
  part.add_ids("00000002-1");
  part.add_ids("00000001-1");
  part.add_shards(7);
  part.add_shards(8);
  WEIR_ASSERT_OK_AND_ASSIGN(std::string id, HolderOfShard(part, 1));
  EXPECT_EQ(id, "00000002-1");
  part.add_id_of_shard(0);
  part.add_id_of_shard(1);
  WEIR_ASSERT_OK_AND_ASSIGN(id, HolderOfShard(part, 1));
  EXPECT_EQ(id, "00000001-1");
  part.set_id_of_shard(1, 2);
  EXPECT_THAT(HolderOfShard(part, 1), HasStatus(absl::StatusCode::kDataLoss, HasSubstr("")));
}

}  // namespace
}  // namespace weir
