// SPDX-License-Identifier: Apache-2.0
// Sync steps whose last contribution is there, but not the memory that closing them takes.
#include "tests/unit/server/workers_fixture.h"

namespace weir {
namespace {

constexpr uint64_t kEve = 0xe;
constexpr uint64_t kChunks = 7;  // of 100 f32 in shards of 64 and 36 elements, by 16

// Somebody reads the first weights for as long as the test lasts, so every update needs a buffer.
class WantOfMemory : public WorkersFixture {
 protected:
  void SetUp() override {
    server =
        std::make_unique<ParameterServer>(ParameterServer::Options{.name = "weir-server-0",
                                                                   .incarnation = kServer,
                                                                   .clock = &clock,
                                                                   .executor = &executor,
                                                                   .has_memory = [this](size_t) {
                                                                     ++asked_;
                                                                     if (left_ == 0) return false;
                                                                     --left_;
                                                                     return true;
                                                                   }});
    view.Sync().AddVariable("w", 100).AddMember(kAnn).AddMember(kBob);
    StartJob(view);
    slow_reader_ = Pull(RequestMaker(view, 0).Pull(RequestMaker(view, 0).SegmentsOf(0)));
    WEIR_ASSERT_OK(slow_reader_.get());
  }
  // So many allocations succeed from now on.
  void Leave(uint64_t allocations) {
    left_ = allocations;
    asked_ = 0;
  }

  static constexpr uint64_t kPlenty = 1 << 20;
  uint64_t left_ = kPlenty;
  uint64_t asked_ = 0;
  Answer<PullResult> slow_reader_;
};

TEST_F(WantOfMemory, AStepOfTheLivingClosesWhenMemoryIsThereAndIsTriedTenTimesASecond) {
  WEIR_ASSERT_OK(Push(Whole(ann, 0), Filled(100, 3)).get());
  Leave(0);
  Remove(kBob);  // ann's push is acknowledged, so nobody sends anything for this step any more
  const auto next = Pull(ann.Pull(ann.SegmentsOf(0), /*step=*/1));
  executor.Advance(absl::Seconds(1));
  EXPECT_FALSE(next.has_come());
  EXPECT_EQ(Weights(view, 0), Filled(100, 0));
  EXPECT_EQ(asked_, 11 * kChunks) << "at once, and ten times in the second after";
  Leave(kPlenty);
  executor.Advance(absl::Milliseconds(100));
  EXPECT_EQ(asked_, kChunks);
  WEIR_ASSERT_OK(next.get());
  EXPECT_EQ(ValuesOf<float>(next.get()->payload), Filled(100, -3));
  executor.Advance(absl::Seconds(10));
  EXPECT_EQ(asked_, kChunks) << "what is closed is not tried again";
  WEIR_ASSERT_OK(Push(Whole(ann, 1), Filled(100, 1)).get());
  EXPECT_EQ(Weights(view, 0), Filled(100, -4));
}

TEST_F(WantOfMemory, ChunksThatFindMemoryCloseOnceAndTheOthersLater) {
  const auto waiting = PushPull(Whole(ann, 0), Filled(100, 3));
  Leave(2);
  Remove(kBob);
  EXPECT_FALSE(waiting.has_come());
  for (int i = 0; i < 3; ++i) {
    Leave(2);
    EXPECT_FALSE(waiting.has_come());
    executor.Advance(absl::Milliseconds(100));
  }
  WEIR_ASSERT_OK(waiting.get());
  EXPECT_EQ(ValuesOf<float>(waiting.get()->payload), Filled(100, -3));
  EXPECT_EQ(waiting.get()->header.segments(0).version(), 1u);
}

TEST_F(WantOfMemory, EveryoneWhoLeavesMeanwhileMakesNoMoreTries) {
  for (const uint64_t late : {kCid, kEve}) view.AddMember(late, /*first_step=*/5);
  WEIR_ASSERT_OK(server->ApplyView(view.NextGeneration().Make()));
  WEIR_ASSERT_OK(Push(Whole(ann, 0), Filled(100, 3)).get());
  Leave(0);
  for (const uint64_t gone : {kBob, kCid, kEve}) Remove(gone);
  executor.Advance(absl::Milliseconds(50));
  asked_ = 0;
  executor.Advance(absl::Seconds(1));
  EXPECT_EQ(asked_, 10 * kChunks);
  Leave(kPlenty);
  executor.Advance(absl::Milliseconds(100));
  EXPECT_EQ(Weights(view, 0), Filled(100, -3));
}

// A contribution takes no memory but the step's first one; what it closes does.
TEST_F(WantOfMemory, TheLastPushIsRefusedAndItsRepetitionClosesTheStep) {
  const auto waiting = PushPull(Whole(ann, 0), Filled(100, 1));
  Leave(0);
  const auto last = PushPull(Whole(bob, 0), Filled(100, 3));
  EXPECT_EQ(last.get().status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(waiting.has_come());
  Leave(kPlenty);
  const auto again = PushPull(Whole(bob, 0), Filled(100, 3));
  WEIR_ASSERT_OK(again.get());
  WEIR_ASSERT_OK(waiting.get());
  EXPECT_EQ(ValuesOf<float>(waiting.get()->payload), Filled(100, -2));
}

TEST_F(WantOfMemory, WhatWasCountedOfARefusedPushStaysWhenItsWorkerDies) {
  const auto waiting = PushPull(Whole(ann, 0), Filled(100, 1));
  Leave(0);
  const auto last = PushPull(bob.Push(OneSegment(0, 0, 16), 1), Filled(16, 3));
  EXPECT_EQ(last.get().status().code(), absl::StatusCode::kResourceExhausted);
  Remove(kBob);
  EXPECT_FALSE(waiting.has_come());
  Leave(kPlenty);
  executor.Advance(absl::Milliseconds(100));
  WEIR_ASSERT_OK(waiting.get());
  const std::vector<float> weights = ValuesOf<float>(waiting.get()->payload);
  EXPECT_EQ(weights[0], -2);
  EXPECT_EQ(weights[16], -1);
}

TEST_F(WantOfMemory, AnAttemptThatEndsIsNotTriedAgain) {
  WEIR_ASSERT_OK(Push(Whole(ann, 0), Filled(100, 3)).get());
  const auto in_use = server->Store(kRun);  // as by a checkpoint that is being written
  WEIR_ASSERT_OK(in_use);
  Leave(0);
  Remove(kBob);
  view.edit().set_state(v1::JOB_STATE_FINISHED);
  WEIR_ASSERT_OK(server->ApplyView(view.NextVersion().Make()));
  asked_ = 0;
  executor.Advance(absl::Seconds(1));
  EXPECT_EQ(asked_, 0u);
}

}  // namespace
}  // namespace weir
