// SPDX-License-Identifier: Apache-2.0
#include <random>

#include "tests/unit/server/workers_fixture.h"

namespace weir {
namespace {

// One variable of 100 f32: shards of 64 and 36 elements, chunks of 16 (the last of 4).
class SyncPush : public WorkersFixture {
 protected:
  void SetUp() override {
    view.Sync().AddVariable("w", 100).AddMember(kAnn).AddMember(kBob);
    StartJob(view);
  }
};

TEST_F(SyncPush, RepliesWaitUntilAllMembersHaveContributed) {
  const auto first = PushPull(Whole(ann, 0), Filled(100, 1));
  EXPECT_FALSE(first.has_come());
  const auto second = PushPull(Whole(bob, 0), Filled(100, 3));
  // (1 + 3) / 2 = 2
  EXPECT_EQ(ValuesOf<float>(first.get()->payload), Filled(100, -2));
  EXPECT_EQ(ValuesOf<float>(second.get()->payload), Filled(100, -2));
  EXPECT_EQ(first.get()->header.segments(0).version(), 1u);
  EXPECT_EQ(first.get()->header.global_step(), 1u);
  EXPECT_EQ(first.get()->header.examples(), 2u);
}

TEST_F(SyncPush, APushAloneIsAcknowledgedWhenItIsCounted) {
  WEIR_ASSERT_OK(Push(Whole(ann, 0), Filled(100, 1)).get());
  EXPECT_EQ(Weights(view, 0), Filled(100, 0));
  WEIR_ASSERT_OK(Push(Whole(bob, 0), Filled(100, 1)).get());
  EXPECT_EQ(Weights(view, 0), Filled(100, -1));
}

TEST_F(SyncPush, TheMeanIsDividedByTheWeightsThatArrived) {
  WEIR_ASSERT_OK(Push(Whole(ann, 0, 3), Filled(100, 1)).get());
  WEIR_ASSERT_OK(Push(Whole(bob, 0, 1), Filled(100, 5)).get());
  // (3 * 1 + 1 * 5) / 4 = 2
  EXPECT_EQ(Weights(view, 0), Filled(100, -2));
}

TEST_F(SyncPush, AnAbsentGradientCountsAsZero) {
  WEIR_ASSERT_OK(Push(Whole(ann, 0, 1), Filled(100, 4)).get());
  v1::PushRequest absent = bob.Push(Absent(bob.SegmentsOf(0)), 1);
  WEIR_ASSERT_OK(Push(absent, std::vector<float>()).get());
  EXPECT_EQ(Weights(view, 0), Filled(100, -2));
}

TEST_F(SyncPush, AnAbsentGradientOfNoWeightLeavesTheOtherUnscaled) {
  std::vector<float> gradient(100);
  for (size_t i = 0; i < 100; ++i) gradient[i] = 0.1f * static_cast<float>(i + 1);
  v1::PushRequest absent = bob.Push(Absent(bob.SegmentsOf(0)), 1);
  absent.set_weight(0);
  WEIR_ASSERT_OK(Push(absent, std::vector<float>()).get());
  WEIR_ASSERT_OK(Push(Whole(ann, 0, 0.3), gradient).get());
  const std::vector<float> weights = Weights(view, 0);
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(weights[i], -gradient[i]);
}

TEST_F(SyncPush, AbsentEverywhereMeansNoUpdateButTheStepCloses) {
  for (const RequestMaker* maker : {&ann, &bob}) {
    const auto request = maker->Push(Absent(maker->SegmentsOf(0)), 1);
    WEIR_ASSERT_OK(Push(request, std::vector<float>()).get());
  }
  const auto pulled = Pull(ann.Pull(ann.SegmentsOf(0), /*step=*/1));
  WEIR_ASSERT_OK(pulled.get());
  EXPECT_EQ(pulled.get()->header.segments(0).version(), 0u);
  EXPECT_EQ(pulled.get()->header.examples(), 2u);
  EXPECT_EQ(pulled.get()->header.global_step(), 1u);
}

TEST_F(SyncPush, ARepeatedPushThatIsStillParkedCountsOnceAndParksToo) {
  const auto first = PushPull(Whole(ann, 0), Filled(100, 1));
  const auto again = PushPull(Whole(ann, 0), Filled(100, 1));
  EXPECT_FALSE(first.has_come());
  EXPECT_FALSE(again.has_come());
  const auto other = PushPull(Whole(bob, 0), Filled(100, 3));
  EXPECT_EQ(ValuesOf<float>(first.get()->payload), Filled(100, -2));
  EXPECT_EQ(ValuesOf<float>(again.get()->payload), Filled(100, -2));
  EXPECT_TRUE(again.get()->header.outcome().repeated());
  // And after the step has closed it is answered at once.
  const auto late = PushPull(Whole(ann, 0), Filled(100, 1));
  EXPECT_EQ(ValuesOf<float>(late.get()->payload), Filled(100, -2));
}

TEST_F(SyncPush, AMessageIsAnsweredWhenItsOwnChunksHaveClosed) {
  const auto small = PushPull(ann.Push(OneSegment(0, 0, 16), 1), Filled(16, 2));
  const auto rest = PushPull(ann.Push(OneSegment(0, 16, 48), 1), Filled(48, 2));
  WEIR_ASSERT_OK(Push(bob.Push(OneSegment(0, 0, 16), 1), Filled(16, 4)).get());
  EXPECT_EQ(ValuesOf<float>(small.get()->payload), Filled(16, -3));
  EXPECT_FALSE(rest.has_come());
}

TEST_F(SyncPush, AMemberThatIsRemovedReleasesTheOthers) {
  const auto waiting = PushPull(Whole(ann, 0), Filled(100, 1));
  EXPECT_FALSE(waiting.has_come());
  Remove(kBob);
  WEIR_ASSERT_OK(waiting.get());
  EXPECT_EQ(ValuesOf<float>(waiting.get()->payload), Filled(100, -1));
  // The next step is its own.
  WEIR_ASSERT_OK(PushPull(Whole(ann, 1), Filled(100, 1)).get());
}

TEST_F(SyncPush, ChunksThatTheDeadHadContributedKeepTheContribution) {
  WEIR_ASSERT_OK(Push(bob.Push(OneSegment(0, 0, 16), 1), Filled(16, 3)).get());
  const auto waiting = PushPull(Whole(ann, 0), Filled(100, 1));
  Remove(kBob);
  WEIR_ASSERT_OK(waiting.get());
  const std::vector<float> weights = ValuesOf<float>(waiting.get()->payload);
  EXPECT_EQ(weights[0], -2);
  EXPECT_EQ(weights[16], -1);
}

TEST_F(SyncPush, TheParkedReplyOfARemovedMemberEndsWithAborted) {
  const auto waiting = PushPull(Whole(bob, 0), Filled(100, 1));
  Remove(kBob);
  EXPECT_TRUE(IsNotAMember(waiting.get().status()));
}

TEST_F(SyncPush, AParkedReplyEndsAtItsDeadlineAndNamesWhoIsMissing) {
  const auto waiting = PushPull(Whole(ann, 0), Filled(100, 1));
  executor.Advance(absl::Seconds(31));
  EXPECT_THAT(waiting.get(), HasStatus(absl::StatusCode::kDeadlineExceeded,
                                       HasSubstr("waits for rank 1 (worker 000000000000000b)")));
  // Its contribution stays; a repetition waits again.
  const auto again = PushPull(Whole(ann, 0), Filled(100, 1));
  WEIR_ASSERT_OK(Push(Whole(bob, 0), Filled(100, 3)).get());
  EXPECT_EQ(ValuesOf<float>(again.get()->payload), Filled(100, -2));
}

TEST_F(SyncPush, AJoinerCountsFromItsFirstStep) {
  view.AddMember(kCid, /*first_step=*/1).NextGeneration();
  WEIR_ASSERT_OK(server->ApplyView(view.Make()));
  EXPECT_THAT(Push(Whole(cid, 0), Filled(100, 1)).get(),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("from step 1")));
  WEIR_ASSERT_OK(Push(Whole(ann, 0), Filled(100, 1)).get());
  WEIR_ASSERT_OK(Push(Whole(bob, 0), Filled(100, 1)).get());
  EXPECT_EQ(Weights(view, 0), Filled(100, -1));
  // Step 1 is its sequence 1.
  v1::PushRequest joiners = cid.Push(cid.SegmentsOf(0), 1);
  joiners.set_step(1);
  joiners.set_group_step(1);
  WEIR_ASSERT_OK(Push(Whole(ann, 1), Filled(100, 3)).get());
  WEIR_ASSERT_OK(Push(Whole(bob, 1), Filled(100, 3)).get());
  EXPECT_EQ(Weights(view, 0), Filled(100, -1));
  WEIR_ASSERT_OK(Push(joiners, Filled(100, 0)).get());
  EXPECT_EQ(Weights(view, 0), Filled(100, -3));
}

TEST_F(SyncPush, AFastWorkersNextStepWaitsUntilThisOneIsClosed) {
  WEIR_ASSERT_OK(Push(Whole(ann, 0), Filled(100, 1)).get());
  const auto ahead = Push(Whole(ann, 1), Filled(100, 10));
  EXPECT_FALSE(ahead.has_come());
  WEIR_ASSERT_OK(Push(Whole(bob, 0), Filled(100, 1)).get());
  WEIR_ASSERT_OK(ahead.get());
  EXPECT_EQ(Weights(view, 0), Filled(100, -1));
  WEIR_ASSERT_OK(Push(Whole(bob, 1), Filled(100, 10)).get());
  EXPECT_EQ(Weights(view, 0), Filled(100, -11));
}

TEST_F(SyncPush, APullOfAStepWaitsForAllStepsBeforeIt) {
  WEIR_ASSERT_OK(Push(Whole(ann, 0), Filled(100, 1)).get());
  const auto pulled = Pull(ann.Pull(ann.SegmentsOf(0), /*step=*/1));
  EXPECT_FALSE(pulled.has_come());
  WEIR_ASSERT_OK(Push(Whole(bob, 0), Filled(100, 1)).get());
  EXPECT_EQ(ValuesOf<float>(pulled.get()->payload), Filled(100, -1));
}

// A worker that joins at step 2 pulls while the others still compute step 1.
TEST_F(SyncPush, APullOfAStepWaitsAlsoWhereTheStepBeforeHasNotBegun) {
  WEIR_ASSERT_OK(Push(Whole(ann, 0), Filled(100, 1)).get());
  WEIR_ASSERT_OK(Push(Whole(bob, 0), Filled(100, 1)).get());
  WEIR_ASSERT_OK(server->ApplyView(view.AddMember(kCid, 2).NextGeneration().Make()));
  const auto pulled = Pull(cid.Pull(cid.SegmentsOf(0), /*step=*/2));
  EXPECT_FALSE(pulled.has_come());
  WEIR_ASSERT_OK(Push(Whole(ann, 1), Filled(100, 1)).get());
  EXPECT_FALSE(pulled.has_come());
  WEIR_ASSERT_OK(Push(Whole(bob, 1), Filled(100, 1)).get());
  EXPECT_EQ(ValuesOf<float>(pulled.get()->payload), Filled(100, -2));
}

// A model may step a group in some steps only: steps 0 and 5 are the group's first two.
TEST_F(SyncPush, APullOfAStepSaysTheGroupStepsBeforeIt) {
  for (v1::PushRequest push : {Whole(ann, 0), Whole(bob, 0)}) {
    WEIR_ASSERT_OK(Push(push, Filled(100, 1)).get());
  }
  const auto pulled = Pull(ann.Pull(ann.SegmentsOf(0), /*step=*/6));
  for (v1::PushRequest push : {Whole(ann, 1), Whole(bob, 1)}) {
    push.set_step(5);
    EXPECT_FALSE(pulled.has_come());
    WEIR_ASSERT_OK(Push(push, Filled(100, 1)).get());
  }
  EXPECT_THAT(pulled.get()->header.group_steps(), ElementsAre(0, 2));
}

// As a server gets it that holds nothing of the group that is pushed.
TEST_F(SyncPush, AMessageWithoutSegmentsSaysHowFarItsWorkerHasCome) {
  for (v1::PushRequest push : {Whole(ann, 0), Whole(bob, 0)}) {
    WEIR_ASSERT_OK(Push(push, Filled(100, 1)).get());
  }
  const auto pulled = Pull(ann.Pull(ann.SegmentsOf(0), /*step=*/3));
  v1::PushRequest note = bob.Push({}, 7);
  for (const uint64_t step : {2, 3}) {
    EXPECT_FALSE(pulled.has_come());
    note.set_step(step);
    WEIR_ASSERT_OK(Push(note, std::vector<float>()).get());
  }
  WEIR_ASSERT_OK(pulled.get());
  // It is no push: the next one is still the second.
  WEIR_ASSERT_OK(Push(Whole(bob, 1), Filled(100, 1)).get());
}

// Group steps 0 and 1 belong to step 0, and 2 and 3 to step 1: that 2 is closed ends no step.
TEST_F(SyncPush, APullOfAStepWaitsForAllOfAStepsUpdatesOfAGroup) {
  const auto push = [&](const RequestMaker& worker, uint64_t group_step) {
    v1::PushRequest request = Whole(worker, group_step);
    request.set_step(group_step / 2);
    return Push(request, Filled(100, 1));
  };
  for (const uint64_t group_step : {0, 1, 2}) {
    push(ann, group_step);
    WEIR_ASSERT_OK(push(bob, group_step).get());
  }
  const auto pulled = Pull(ann.Pull(ann.SegmentsOf(0), /*step=*/2));
  EXPECT_FALSE(pulled.has_come());
  push(ann, 3);
  WEIR_ASSERT_OK(push(bob, 3).get());
  // Is that all of step 1? It is when bob goes on.
  EXPECT_FALSE(pulled.has_come());
  push(bob, 4);
  EXPECT_THAT(pulled.get()->header.group_steps(), ElementsAre(0, 4));
}

TEST_F(SyncPush, APullOfAStepThatDoesNotBeginNamesWhoIsBehind) {
  const auto pulled = Pull(ann.Pull(ann.SegmentsOf(0), /*step=*/1));
  executor.Advance(absl::Seconds(31));
  EXPECT_THAT(pulled.get(), HasStatus(absl::StatusCode::kDeadlineExceeded, HasSubstr("rank 1")));
}

TEST_F(SyncPush, APullThatWaitsTooLongNamesWhoIsMissing) {
  WEIR_ASSERT_OK(Push(Whole(ann, 0), Filled(100, 1)).get());
  const auto pulled = Pull(ann.Pull(ann.SegmentsOf(0), /*step=*/1));
  executor.Advance(absl::Seconds(31));
  EXPECT_THAT(pulled.get(), HasStatus(absl::StatusCode::kDeadlineExceeded, HasSubstr("rank 1")));
}

TEST_F(SyncPush, RateScalesThatDifferInAStepAreRefused) {
  v1::PushRequest first = Whole(ann, 0);
  first.set_rate_scale(0.5);
  WEIR_ASSERT_OK(Push(first, Filled(100, 1)).get());
  EXPECT_THAT(Push(Whole(bob, 0), Filled(100, 1)).get(),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("rate_scale")));
}

TEST_F(SyncPush, OneGroupStepBelongsToOneStep) {
  WEIR_ASSERT_OK(Push(Whole(ann, 0), Filled(100, 1)).get());
  v1::PushRequest other = Whole(bob, 0);
  other.set_step(5);
  EXPECT_THAT(Push(other, Filled(100, 1)).get(),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("step 5")));
}

TEST_F(SyncPush, ASequenceIsOfOneGroupStep) {
  WEIR_ASSERT_OK(Push(ann.Push(OneSegment(0, 0, 16), 1), Filled(16, 1)).get());
  v1::PushRequest other = ann.Push(OneSegment(0, 16, 16), 1);
  other.set_group_step(1);
  EXPECT_THAT(Push(other, Filled(16, 1)).get(),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("group step")));
}

TEST_F(SyncPush, GroupsStepOnTheirOwn) {
  ViewMaker gan;
  gan.edit().set_run_id(8);
  gan.Sync().AddGroup("generator");
  gan.AddVariable("d", 20, 1).AddVariable("g", 20, 2).AddMember(kAnn);
  StartJob(gan);
  const RequestMaker maker(gan, kAnn);
  for (uint64_t step = 0; step < 5; ++step) {
    WEIR_ASSERT_OK(PushPull(maker.Push(maker.SegmentsOf(0), step + 1), Filled(20, 1)).get());
  }
  v1::PushRequest generator = maker.Push(maker.SegmentsOf(1), 1, /*group=*/2);
  generator.set_step(5);
  WEIR_ASSERT_OK(PushPull(generator, Filled(20, 1)).get());
  EXPECT_EQ(Weights(gan, 0), Filled(20, -5));
  EXPECT_EQ(Weights(gan, 1), Filled(20, -1));
}

// Sums in f32 depend on their order, so the values are uneven.
std::vector<float> Uneven(uint32_t seed, size_t count) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(random()) / 1e6f * (random() % 2 == 0 ? 1 : -1);
  }
  return values;
}

TEST_F(SyncPush, DeterministicSumsDoNotDependOnTheOrderOfArrival) {
  std::vector<std::vector<float>> results;
  const std::vector<std::vector<uint64_t>> orders = {
      {kAnn, kBob, kCid}, {kCid, kBob, kAnn}, {kBob, kCid, kAnn}};
  for (size_t i = 0; i < orders.size(); ++i) {
    ViewMaker own;
    own.edit().set_run_id(100 + i);
    own.Sync().Deterministic().AddVariable("w", 100);
    own.AddMember(kAnn).AddMember(kBob).AddMember(kCid);
    StartJob(own);
    for (const uint64_t worker : orders[i]) {
      const RequestMaker maker(own, worker);
      v1::PushRequest request = maker.Push(maker.SegmentsOf(0), 1);
      request.set_weight(1.0 + 0.1 * static_cast<double>(worker));
      WEIR_ASSERT_OK(Push(request, Uneven(static_cast<uint32_t>(worker), 100)).get());
    }
    results.push_back(Weights(own, 0));
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST_F(SyncPush, WithOneWorkerSyncEqualsAsyncBitForBit) {
  std::vector<std::vector<float>> results;
  for (const bool sync : {true, false}) {
    ViewMaker own;
    own.edit().set_run_id(sync ? 100 : 101);
    if (sync) own.Sync();
    v1::Adam& adam = *own.optimizer().mutable_adam();
    adam.set_beta1(0.9);
    adam.set_beta2(0.999);
    adam.set_eps(1e-8);
    adam.set_weight_decay(0.01);
    own.optimizer().mutable_learning_rate()->set_base(0.01);
    own.optimizer().mutable_learning_rate()->set_warm_up_examples(30);
    own.AddVariable("w", 100).AddMember(kAnn);
    StartJob(own);
    const RequestMaker maker(own, kAnn);
    for (uint32_t step = 0; step < 20; ++step) {
      v1::PushRequest request = maker.Push(maker.SegmentsOf(0), step + 1);
      request.set_weight(step % 3 == 0 ? 0.37 : 1);
      request.set_examples(step % 3 == 0 ? 3 : 8);
      WEIR_ASSERT_OK(PushPull(request, Uneven(step, 100)).get());
    }
    results.push_back(Weights(own, 0));
  }
  EXPECT_EQ(results[0], results[1]);
}

}  // namespace
}  // namespace weir
