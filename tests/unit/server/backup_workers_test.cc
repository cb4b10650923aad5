// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/server/workers_fixture.h"

namespace weir {
namespace {

// Three workers, of which a step waits for two; one variable of 100 f32.
class BackupWorkers : public WorkersFixture {
 protected:
  void SetUp() override {
    view.Sync().BackupWorkers(1).AddVariable("w", 100);
    view.AddMember(kAnn).AddMember(kBob).AddMember(kCid);
    StartJob(view);
  }
  static v1::PushRequest At(v1::PushRequest request, uint64_t step) {
    request.set_step(step);
    request.set_group_step(step);
    return request;
  }
};

TEST_F(BackupWorkers, AStepClosesWithoutTheLast) {
  const auto first = PushPull(Whole(ann, 0), Filled(100, 1));
  EXPECT_FALSE(first.has_come());
  const auto second = PushPull(Whole(bob, 0), Filled(100, 3));
  EXPECT_EQ(ValuesOf<float>(first.get()->payload), Filled(100, -2));
  EXPECT_FALSE(second.get()->header.outcome().late());
}

TEST_F(BackupWorkers, ALatePushIsDroppedAndItsWorkerGoesOnWithTheOthersStep) {
  for (uint64_t step = 0; step < 4; ++step) {
    const auto waits = PushPull(Whole(ann, step), Filled(100, 1));
    WEIR_ASSERT_OK(PushPull(Whole(bob, step), Filled(100, 1)).get());
    WEIR_ASSERT_OK(waits.get());
  }
  const auto late = PushPull(Whole(cid, 0), Filled(100, 50));
  WEIR_ASSERT_OK(late.get());
  EXPECT_TRUE(late.get()->header.outcome().late());
  EXPECT_FALSE(late.get()->header.outcome().repeated());
  EXPECT_EQ(late.get()->header.outcome().next_step(), 4u);
  EXPECT_EQ(late.get()->header.outcome().next_group_step(), 4u);
  EXPECT_EQ(ValuesOf<float>(late.get()->payload), Filled(100, -4));
  // Its next push is of that step, and counts.
  const auto waits = PushPull(At(cid.Push(cid.SegmentsOf(0), 2), 4), Filled(100, 1));
  WEIR_ASSERT_OK(PushPull(Whole(ann, 4), Filled(100, 3)).get());
  EXPECT_EQ(ValuesOf<float>(waits.get()->payload), Filled(100, -6));
  EXPECT_FALSE(waits.get()->header.outcome().late());
}

TEST_F(BackupWorkers, ALatePushThatIsRepeatedIsDroppedOnce) {
  WEIR_ASSERT_OK(Push(Whole(ann, 0), Filled(100, 1)).get());
  WEIR_ASSERT_OK(Push(Whole(bob, 0), Filled(100, 1)).get());
  WEIR_ASSERT_OK(Push(Whole(cid, 0), Filled(100, 50)).get());
  const auto again = PushPull(Whole(cid, 0), Filled(100, 50));
  WEIR_ASSERT_OK(again.get());
  EXPECT_TRUE(again.get()->header.outcome().repeated());
  EXPECT_EQ(ValuesOf<float>(again.get()->payload), Filled(100, -1));
}

TEST_F(BackupWorkers, APushThatIsLateForSomeChunksCountsInTheOthers) {
  WEIR_ASSERT_OK(Push(Whole(ann, 0), Filled(100, 1)).get());
  WEIR_ASSERT_OK(Push(bob.Push(OneSegment(0, 0, 64), 1), Filled(64, 1)).get());
  const auto partly = PushPull(Whole(cid, 0), Filled(100, 3));
  WEIR_ASSERT_OK(partly.get());
  EXPECT_TRUE(partly.get()->header.outcome().late());
  EXPECT_EQ(partly.get()->header.outcome().next_step(), 1u);
  const std::vector<float> weights = ValuesOf<float>(partly.get()->payload);
  EXPECT_EQ(weights[0], -1);   // of ann and bob
  EXPECT_EQ(weights[99], -2);  // of ann and cid
  const auto rest = Push(bob.Push(OneSegment(1, 0, 36), 1), Filled(36, 7));
  WEIR_ASSERT_OK(rest.get());
  EXPECT_TRUE(rest.get()->outcome().late());
}

TEST_F(BackupWorkers, ADeathUsesUpTheBackup) {
  Remove(kCid);
  const auto first = PushPull(Whole(ann, 0), Filled(100, 1));
  EXPECT_FALSE(first.has_come());
  WEIR_ASSERT_OK(PushPull(Whole(bob, 0), Filled(100, 3)).get());
  EXPECT_EQ(ValuesOf<float>(first.get()->payload), Filled(100, -2));
}

TEST_F(BackupWorkers, TheQuorumNeverExceedsWhoIsAlive) {
  Remove(kCid);
  const auto waiting = PushPull(Whole(ann, 0), Filled(100, 1));
  EXPECT_FALSE(waiting.has_come());
  Remove(kBob);
  EXPECT_EQ(ValuesOf<float>(waiting.get()->payload), Filled(100, -1));
  WEIR_ASSERT_OK(PushPull(Whole(ann, 1), Filled(100, 1)).get());
}

TEST_F(BackupWorkers, AContributionOfTheDeadDoesNotMakeAQuorum) {
  WEIR_ASSERT_OK(Push(Whole(cid, 0), Filled(100, 5)).get());
  Remove(kCid);
  const auto waiting = PushPull(Whole(ann, 0), Filled(100, 1));
  EXPECT_FALSE(waiting.has_come());
  WEIR_ASSERT_OK(Push(Whole(bob, 0), Filled(100, 3)).get());
  EXPECT_EQ(ValuesOf<float>(waiting.get()->payload), Filled(100, -3));
}

TEST_F(BackupWorkers, WithoutBackupWorkersALatePushCannotBe) {
  ViewMaker own;
  own.edit().set_run_id(8);
  own.Sync().AddVariable("w", 100).AddMember(kAnn);
  StartJob(own);
  const RequestMaker maker(own, kAnn);
  WEIR_ASSERT_OK(Push(maker.Push(maker.SegmentsOf(0), 1), Filled(100, 1)).get());
  EXPECT_THAT(Push(At(maker.Push(maker.SegmentsOf(0), 2), 0), Filled(100, 1)).get(),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("group step")));
}

}  // namespace
}  // namespace weir
