// SPDX-License-Identifier: Apache-2.0
#include "server/part_saver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>

#include "checkpoint/part_reader.h"
#include "server/buffer_pool.h"
#include "tests/support/manual_executor.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kChunkBytes = 100'000;
constexpr uint64_t kChunks = 10;

class PartSaverTest : public ::testing::Test {
 protected:
  // A cut of one shard of ten chunks of 100,000 bytes; the pool says what of it is still held.
  PartSaver::Cut MakeCut() {
    PartSaver::Cut cut;
    cut.dtypes = {v1::DTYPE_BOOL};
    cut.snapshot.attempt = 3;
    cut.snapshot.step = 40;
    cut.snapshot.group_steps = {2, 40};
    ShardSnapshot& shard = cut.snapshot.shards.emplace_back();
    shard.shard.id = ShardId{5};
    shard.shard.elements = kChunks * kChunkBytes;
    shard.shard.chunk_elements = kChunkBytes;
    shard.shard.element_bytes = 1;
    for (uint64_t i = 0; i < kChunks; ++i) {
      ChunkSnapshot& chunk = shard.chunks.emplace_back();
      chunk.initialised = true;
      chunk.weights = pool_.Allocate(kChunkBytes);
    }
    return cut;
  }

  static v1::SavePartRequest Request(const std::string& id) {
    v1::SavePartRequest request;
    request.set_cut(7);
    request.set_checkpoint_id(id);
    request.set_directory("job/" + id);
    return request;
  }

  PartSaver::Options OptionsAt(uint64_t bytes_per_second) {
    PartSaver::Options options;
    options.files = &FileSystem::Real();
    options.executor = &executor_;
    options.clock = &clock_;
    options.stopping = &stopping_;
    options.root = temp_ / "server-0";
    options.server = "server-0";
    options.bytes_per_second = bytes_per_second;
    options.slice_bytes = kChunkBytes;
    return options;
  }

  PartSaver::Done Into(std::optional<absl::StatusOr<v1::SavePartReply>>& reply) {
    return [&reply](absl::StatusOr<v1::SavePartReply> got) { reply = std::move(got); };
  }

  absl::Time After(absl::Duration duration) { return clock_.Now() + duration; }
  std::vector<std::string> Names() {
    return FileSystem::Real().List(temp_ / "server-0/job").value_or(std::vector<std::string>());
  }

  FakeClock clock_;
  ManualExecutor executor_{clock_};
  BufferPool pool_{{.clock = &clock_, .executor = &executor_}};
  std::atomic<bool> stopping_{false};
  TempFolder temp_;
  std::optional<absl::StatusOr<v1::SavePartReply>> reply_;
};

TEST_F(PartSaverTest, ThePartSaysWhatCutItIsOf) {
  PartSaver saver(OptionsAt(0));
  saver.Write(MakeCut(), Request("00000001-1"), absl::InfiniteFuture(), Into(reply_));
  executor_.RunAll();
  ASSERT_TRUE(reply_.has_value());
  WEIR_ASSERT_OK(*reply_);
  const v1::CheckpointPart& part = (*reply_)->part();
  EXPECT_EQ(part.server(), "server-0");
  EXPECT_EQ(part.cut(), 7);
  EXPECT_EQ(part.attempt(), 3);
  EXPECT_EQ(part.step(), 40);
  EXPECT_THAT(part.group_steps(), ElementsAre(2, 40));
  EXPECT_THAT(part.shards(), ElementsAre(5));
  EXPECT_THAT(part.ids(), ElementsAre("00000001-1"));
  WEIR_EXPECT_OK(PartReader::Open(FileSystem::Real(), part.directory(), part.files()).status());
}

// 1,000,000 bytes at 100,000 a second are ten slices, one a second; after each, its chunk is free
// for the store to update in place.
TEST_F(PartSaverTest, WritingIsPacedAndLetsGoOfChunksOneByOne) {
  PartSaver saver(OptionsAt(kChunkBytes));
  saver.Write(MakeCut(), Request("00000001-1"), absl::InfiniteFuture(), Into(reply_));
  executor_.RunAll();
  EXPECT_EQ(pool_.used_bytes(), 9 * kChunkBytes);
  executor_.Advance(absl::Seconds(4.5));
  EXPECT_EQ(pool_.used_bytes(), 5 * kChunkBytes);
  EXPECT_FALSE(reply_.has_value());
  executor_.Advance(absl::Seconds(6));
  ASSERT_TRUE(reply_.has_value());
  WEIR_EXPECT_OK(*reply_);
  EXPECT_EQ(pool_.used_bytes(), 0);
}

TEST_F(PartSaverTest, OnePartOfAJobAtATime) {
  PartSaver saver(OptionsAt(kChunkBytes));
  saver.Write(MakeCut(), Request("00000001-1"), absl::InfiniteFuture(), Into(reply_));
  std::optional<absl::StatusOr<v1::SavePartReply>> second;
  saver.Write(MakeCut(), Request("00000002-1"), absl::InfiniteFuture(), Into(second));
  ASSERT_TRUE(second.has_value());
  EXPECT_THAT(*second, HasStatus(absl::StatusCode::kAborted, HasSubstr("another part")));
  v1::DropPartRequest drop;
  drop.set_directory("job/00000001-1");
  EXPECT_THAT(saver.Drop(drop), HasStatus(absl::StatusCode::kAborted, HasSubstr("ask again")));
  executor_.Advance(absl::Seconds(11));
  WEIR_ASSERT_OK(*reply_);
  second.reset();
  saver.Write(MakeCut(), Request("00000002-1"), absl::InfiniteFuture(), Into(second));
  executor_.Advance(absl::Seconds(11));
  WEIR_EXPECT_OK(*second);
  WEIR_EXPECT_OK(saver.Drop(drop));
  EXPECT_THAT(Names(), ElementsAre("00000002-1", "live"));
}

TEST_F(PartSaverTest, WhatIsNotWrittenInTimeLeavesNothing) {
  PartSaver saver(OptionsAt(kChunkBytes));
  saver.Write(MakeCut(), Request("00000001-1"), After(absl::Seconds(3)), Into(reply_));
  executor_.Advance(absl::Seconds(4));
  ASSERT_TRUE(reply_.has_value());
  EXPECT_THAT(*reply_, HasStatus(absl::StatusCode::kDeadlineExceeded, HasSubstr("00000001-1")));
  EXPECT_EQ(pool_.used_bytes(), 0);
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(PartSaverTest, AStoppedServerAnswersAndLeavesNothing) {
  PartSaver saver(OptionsAt(kChunkBytes));
  saver.Write(MakeCut(), Request("00000001-1"), absl::InfiniteFuture(), Into(reply_));
  executor_.Advance(absl::Seconds(2));
  stopping_ = true;
  executor_.Advance(absl::Seconds(2));
  ASSERT_TRUE(reply_.has_value());
  EXPECT_THAT(*reply_, HasStatus(absl::StatusCode::kUnavailable, HasSubstr("shutting down")));
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(PartSaverTest, AFolderOfAnotherIdIsRefused) {
  PartSaver saver(OptionsAt(0));
  v1::SavePartRequest request = Request("00000001-1");
  request.set_directory("job/00000002-1");
  saver.Write(MakeCut(), request, absl::InfiniteFuture(), Into(reply_));
  executor_.RunAll();
  ASSERT_TRUE(reply_.has_value());
  EXPECT_THAT(*reply_, HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("00000001-1")));
}

}  // namespace
}  // namespace weir
