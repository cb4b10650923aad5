// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/server/workers_fixture.h"

namespace weir {
namespace {

// One variable of 100 f32, and a bound of 3 steps.
class BoundedStaleness : public WorkersFixture {
 protected:
  void SetUp() override {
    view.BoundedStaleness(3).AddVariable("w", 100).AddMember(kAnn).AddMember(kBob);
    StartJob(view);
  }
  Answer<PullResult> Step(const RequestMaker& maker, uint64_t step, uint64_t first_step = 0) {
    return PushPull(Whole(maker, step, /*weight=*/1, first_step), Filled(100, 1));
  }
};

TEST_F(BoundedStaleness, NobodyIsStoppedBeforeTheBound) {
  for (uint64_t step = 0; step < 3; ++step) WEIR_ASSERT_OK(Step(ann, step).get());
  EXPECT_EQ(Weights(view, 0), Filled(100, -3));
}

TEST_F(BoundedStaleness, NobodyIsEverMoreThanTheBoundAheadOfTheSlowest) {
  for (uint64_t step = 0; step < 3; ++step) WEIR_ASSERT_OK(Step(ann, step).get());
  for (uint64_t step = 3; step < 10; ++step) {
    // Applied on arrival, but the weights for the next step wait for the slow one's.
    const auto fast = Step(ann, step);
    EXPECT_FALSE(fast.has_come()) << step;
    EXPECT_EQ(Weights(view, 0)[0], -static_cast<float>(2 * step - 3 + 1));
    WEIR_ASSERT_OK(Step(bob, step - 3).get());
    WEIR_ASSERT_OK(fast.get());
    EXPECT_EQ(ValuesOf<float>(fast.get()->payload)[0], -static_cast<float>(2 * step - 1));
  }
}

TEST_F(BoundedStaleness, AStepIsDoneWhenAllOfItHasArrived) {
  for (uint64_t step = 0; step < 3; ++step) WEIR_ASSERT_OK(Step(ann, step).get());
  const auto fast = Step(ann, 3);
  WEIR_ASSERT_OK(Push(bob.Push(OneSegment(0, 0, 64), 1), Filled(64, 1)).get());
  EXPECT_FALSE(fast.has_come());
  WEIR_ASSERT_OK(Push(bob.Push(OneSegment(1, 0, 36), 1), Filled(36, 1)).get());
  WEIR_ASSERT_OK(fast.get());
}

TEST_F(BoundedStaleness, ARemovalReleasesWhoWaits) {
  for (uint64_t step = 0; step < 3; ++step) WEIR_ASSERT_OK(Step(ann, step).get());
  const auto fast = Step(ann, 3);
  EXPECT_FALSE(fast.has_come());
  WEIR_ASSERT_OK(server->ApplyView(view.RemoveMember(kBob).NextGeneration().Make()));
  WEIR_ASSERT_OK(fast.get());
}

TEST_F(BoundedStaleness, TheReplyOfARemovedMemberEndsWithAborted) {
  for (uint64_t step = 0; step < 3; ++step) WEIR_ASSERT_OK(Step(ann, step).get());
  const auto fast = Step(ann, 3);
  WEIR_ASSERT_OK(server->ApplyView(view.RemoveMember(kAnn).NextGeneration().Make()));
  EXPECT_TRUE(IsNotAMember(fast.get().status()));
}

// The attempt ends while the push is applied, before its reply begins to wait.
TEST_F(BoundedStaleness, NoReplyBeginsToWaitInAnAttemptThatIsOver) {
  for (uint64_t step = 0; step < 3; ++step) WEIR_ASSERT_OK(Step(ann, step).get());
  ViewMaker next = view;
  next.edit().set_attempt(2);
  next.NextVersion();
  const auto roll_back = [&] { WEIR_EXPECT_OK(server->ApplyView(next.Make())); };
  Answer<PullResult> fast;
  server->PushPull(Whole(ann, 3), PayloadOf(Filled(100, 1), roll_back), Soon(), fast.Callback());
  EXPECT_TRUE(IsStaleAttempt(fast.get().status())) << fast.get().status();
}

TEST_F(BoundedStaleness, NoReplyBeginsToWaitForWhoIsNoMemberAnyMore) {
  for (uint64_t step = 0; step < 3; ++step) WEIR_ASSERT_OK(Step(ann, step).get());
  Answer<PullResult> fast;
  server->PushPull(Whole(ann, 3), PayloadOf(Filled(100, 1), [&] { Remove(kAnn); }), Soon(),
                   fast.Callback());
  EXPECT_TRUE(IsNotAMember(fast.get().status())) << fast.get().status();
}

TEST_F(BoundedStaleness, WhoWaitsTooLongIsToldForWhom) {
  for (uint64_t step = 0; step < 3; ++step) WEIR_ASSERT_OK(Step(ann, step).get());
  const auto fast = Step(ann, 3);
  executor.Advance(absl::Seconds(31));
  EXPECT_THAT(fast.get(),
              HasStatus(absl::StatusCode::kDeadlineExceeded,
                        HasSubstr("step 4 waits for rank 1 (worker 000000000000000b): the slowest "
                                  "has done 0 steps, and bounded_staleness is 3")));
  // A repetition waits again, and counts once.
  const auto again = Step(ann, 3);
  EXPECT_FALSE(again.has_come());
  WEIR_ASSERT_OK(Step(bob, 0).get());
  WEIR_ASSERT_OK(again.get());
  EXPECT_TRUE(again.get()->header.outcome().repeated());
  EXPECT_EQ(Weights(view, 0), Filled(100, -5));
}

TEST_F(BoundedStaleness, APullOfAStepWaitsToo) {
  WEIR_ASSERT_OK(Pull(ann.Pull(ann.SegmentsOf(0), /*step=*/3)).get());
  const auto ahead = Pull(ann.Pull(ann.SegmentsOf(0), /*step=*/4));
  EXPECT_FALSE(ahead.has_come());
  WEIR_ASSERT_OK(Step(bob, 0).get());
  WEIR_ASSERT_OK(ahead.get());
}

// As a server gets it that holds nothing of the group that is pushed.
TEST_F(BoundedStaleness, AMessageWithoutSegmentsSaysHowFarItsWorkerHasCome) {
  const auto ahead = Pull(ann.Pull(ann.SegmentsOf(0), /*step=*/4));
  EXPECT_FALSE(ahead.has_come());
  v1::PushRequest note = bob.Push({}, 7);
  note.set_step(1);
  WEIR_ASSERT_OK(Push(note, std::vector<float>()).get());
  WEIR_ASSERT_OK(ahead.get());
}

TEST_F(BoundedStaleness, AJoinerBeginsAtTheSlowestOnesStepAndStopsNobody) {
  for (uint64_t step = 0; step < 3; ++step) {
    WEIR_ASSERT_OK(Step(ann, step).get());
    WEIR_ASSERT_OK(Step(bob, step).get());
  }
  // The coordinator knows of step 1 only; here the slowest has done 3.
  WEIR_ASSERT_OK(server->ApplyView(view.AddMember(kCid, 1).NextGeneration().Make()));
  const auto pulled = Pull(cid.Pull(cid.SegmentsOf(0), /*step=*/1));
  WEIR_ASSERT_OK(pulled.get());
  EXPECT_EQ(pulled.get()->header.slowest_step(), 3u);
  for (uint64_t step = 3; step < 6; ++step) WEIR_ASSERT_OK(Step(ann, step).get());
  const auto fast = Step(ann, 6);
  WEIR_ASSERT_OK(Step(bob, 3).get());
  EXPECT_FALSE(fast.has_come());
  WEIR_ASSERT_OK(Step(cid, 3, /*first_step=*/3).get());
  WEIR_ASSERT_OK(fast.get());
}

TEST_F(BoundedStaleness, NobodyWaitsForOneThatHasFinished) {
  for (uint64_t step = 0; step < 3; ++step) WEIR_ASSERT_OK(Step(ann, step).get());
  const auto fast = Step(ann, 3);
  v1::PushRequest last = bob.Push(Absent(bob.SegmentsOf(0)), 1);
  last.set_weight(0);
  last.set_examples(0);
  last.set_finished(true);
  WEIR_ASSERT_OK(Push(last, std::vector<float>()).get());
  WEIR_ASSERT_OK(fast.get());
  for (uint64_t step = 4; step < 10; ++step) WEIR_ASSERT_OK(Step(ann, step).get());
}

TEST_F(BoundedStaleness, AJoinerBesideOnesThatHaveFinishedBeginsWhereTheFurthestWas) {
  for (uint64_t step = 0; step < 2; ++step) WEIR_ASSERT_OK(Step(ann, step).get());
  for (const auto& [maker, sequence] : {std::make_pair(&ann, 3), std::make_pair(&bob, 1)}) {
    v1::PushRequest last = maker->Push(Absent(maker->SegmentsOf(0)), sequence);
    last.set_weight(0);
    last.set_finished(true);
    WEIR_ASSERT_OK(Push(last, std::vector<float>()).get());
  }
  WEIR_ASSERT_OK(server->ApplyView(view.AddMember(kCid, 1).NextGeneration().Make()));
  const auto pulled = Pull(cid.Pull(cid.SegmentsOf(0), /*step=*/1));
  WEIR_ASSERT_OK(pulled.get());
  EXPECT_EQ(pulled.get()->header.slowest_step(), 3u);
}

TEST_F(BoundedStaleness, AStepOfSeveralGroupsIsDoneWithTheLast) {
  ViewMaker own;
  own.edit().set_run_id(8);
  own.BoundedStaleness(1).AddGroup("other");
  own.AddVariable("a", 16, 1).AddVariable("b", 16, 2).AddMember(kAnn).AddMember(kBob);
  StartJob(own);
  const RequestMaker fast(own, kAnn);
  const RequestMaker slow(own, kBob);
  WEIR_ASSERT_OK(PushPull(fast.Push(fast.SegmentsOf(0), 1, 1), Filled(16, 1)).get());
  WEIR_ASSERT_OK(PushPull(fast.Push(fast.SegmentsOf(1), 1, 2), Filled(16, 1)).get());
  const auto waits = PushPull(fast.Push(fast.SegmentsOf(0), 2, 1), Filled(16, 1));
  WEIR_ASSERT_OK(Push(slow.Push(slow.SegmentsOf(0), 1, 1), Filled(16, 1)).get());
  EXPECT_FALSE(waits.has_come());
  WEIR_ASSERT_OK(Push(slow.Push(slow.SegmentsOf(1), 1, 2), Filled(16, 1)).get());
  WEIR_ASSERT_OK(waits.get());
}

TEST_F(BoundedStaleness, AWaitingReplyKeepsADrainingServer) {
  for (uint64_t step = 0; step < 3; ++step) WEIR_ASSERT_OK(Step(ann, step).get());
  const auto fast = Step(ann, 3);
  bool drained = false;
  server->Drain([&] { drained = true; });
  EXPECT_FALSE(drained);
  WEIR_ASSERT_OK(Step(bob, 0).get());
  WEIR_ASSERT_OK(fast.get());
  EXPECT_TRUE(drained);
}

}  // namespace
}  // namespace weir
