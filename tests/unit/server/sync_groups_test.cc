// SPDX-License-Identifier: Apache-2.0
#include <random>

#include "tests/unit/server/workers_fixture.h"

namespace weir {
namespace {

constexpr uint64_t kDan = 0xd;
constexpr uint64_t kEve = 0xe;

// Ann and Bob are one group, Cid and Dan the other; one variable of 100 f32.
class SyncGroupsOnServer : public WorkersFixture {
 protected:
  void SetUp() override {
    view.SyncGroups(2).AddVariable("w", 100);
    view.AddMember(kAnn).AddMember(kBob).AddMember(kCid).AddMember(kDan);
    Put(view, kCid, 1);
    Put(view, kDan, 1);
    StartJob(view);
  }
  static void Put(ViewMaker& view, uint64_t worker, uint32_t group) {
    for (v1::Member& member : *view.edit().mutable_members()) {
      if (member.worker() == worker) member.set_sync_group(group);
    }
  }
  RequestMaker dan{view, kDan};
  RequestMaker eve{view, kEve};
};

TEST_F(SyncGroupsOnServer, AGroupsStepIsItsWeightedMeanAndOneUpdate) {
  const auto first = PushPull(Whole(ann, 0, 3), Filled(100, 1));
  EXPECT_FALSE(first.has_come());
  WEIR_ASSERT_OK(PushPull(Whole(bob, 0, 1), Filled(100, 5)).get());
  // (3 * 1 + 1 * 5) / 4 = 2
  EXPECT_EQ(ValuesOf<float>(first.get()->payload), Filled(100, -2));
  EXPECT_EQ(first.get()->header.segments(0).version(), 1u);
  EXPECT_EQ(first.get()->header.global_step(), 1u);
}

TEST_F(SyncGroupsOnServer, GroupsDoNotWaitForEachOther) {
  for (uint64_t step = 0; step < 3; ++step) {
    const auto first = PushPull(Whole(ann, step), Filled(100, 1));
    WEIR_ASSERT_OK(PushPull(Whole(bob, step), Filled(100, 3)).get());
    WEIR_ASSERT_OK(first.get());
  }
  const auto other = PushPull(Whole(cid, 0), Filled(100, 10));
  EXPECT_FALSE(other.has_come());
  WEIR_ASSERT_OK(PushPull(Whole(dan, 0), Filled(100, 20)).get());
  // 3 * 2 + 15
  EXPECT_EQ(ValuesOf<float>(other.get()->payload), Filled(100, -21));
  EXPECT_EQ(other.get()->header.global_step(), 4u);
}

TEST_F(SyncGroupsOnServer, StepsOfTwoGroupsMayBeOpenAtOnce) {
  const auto one = PushPull(Whole(ann, 0), Filled(100, 1));
  const auto two = PushPull(Whole(cid, 0), Filled(100, 10));
  EXPECT_FALSE(one.has_come());
  EXPECT_FALSE(two.has_come());
  WEIR_ASSERT_OK(Push(Whole(dan, 0), Filled(100, 20)).get());
  EXPECT_EQ(ValuesOf<float>(two.get()->payload), Filled(100, -15));
  EXPECT_FALSE(one.has_come());
  WEIR_ASSERT_OK(Push(Whole(bob, 0), Filled(100, 3)).get());
  EXPECT_EQ(ValuesOf<float>(one.get()->payload), Filled(100, -17));
}

TEST_F(SyncGroupsOnServer, StalenessCountsTheUpdatesOfOtherGroups) {
  for (const RequestMaker* maker : {&ann, &bob}) {
    WEIR_ASSERT_OK(Push(Whole(*maker, 0), Filled(100, 1)).get());
  }
  auto segments = cid.SegmentsOf(0);
  for (v1::Segment& segment : segments) segment.set_have_version(1);
  for (uint64_t step = 1; step < 3; ++step) {
    for (const RequestMaker* maker : {&ann, &bob}) {
      WEIR_ASSERT_OK(Push(Whole(*maker, step), Filled(100, 1)).get());
    }
  }
  const auto stale = Push(cid.Push(segments, 1), Filled(100, 1));
  EXPECT_EQ(stale.get()->outcome().staleness(), 2u);
}

TEST_F(SyncGroupsOnServer, ALeaverLeavesItsGroupSmaller) {
  const auto waiting = PushPull(Whole(ann, 0), Filled(100, 1));
  Remove(kCid);
  EXPECT_FALSE(waiting.has_come());
  Remove(kBob);
  EXPECT_EQ(ValuesOf<float>(waiting.get()->payload), Filled(100, -1));
  WEIR_ASSERT_OK(PushPull(Whole(ann, 1), Filled(100, 1)).get());
  WEIR_ASSERT_OK(PushPull(Whole(dan, 0), Filled(100, 1)).get());
}

TEST_F(SyncGroupsOnServer, AWaitNamesTheMissingOfItsOwnGroup) {
  const auto waiting = PushPull(Whole(ann, 0), Filled(100, 1));
  executor.Advance(absl::Seconds(31));
  EXPECT_THAT(waiting.get(), HasStatus(absl::StatusCode::kDeadlineExceeded,
                                       ::testing::AllOf(HasSubstr("rank 1"),
                                                        ::testing::Not(HasSubstr("rank 2")))));
}

TEST_F(SyncGroupsOnServer, AJoinerCountsFromABoundaryOfItsGroup) {
  Remove(kDan);
  for (uint64_t step = 0; step < 2; ++step) {
    WEIR_ASSERT_OK(PushPull(Whole(cid, step), Filled(100, 1)).get());
  }
  // Eve joins Cid's group; its step 2 is divided already, so she counts from 3.
  v1::PrepareStepRequest prepare = PrepareRequest(1, 1);
  prepare.set_sync_group(1);
  EXPECT_FALSE(server->PrepareStep(prepare).ok());  // begun
  prepare.set_change_id(2);
  prepare.set_step(2);
  WEIR_ASSERT_OK(server->PrepareStep(prepare));
  const auto held = PushPull(Whole(cid, 2), Filled(100, 1));
  EXPECT_FALSE(held.has_come());
  // The other group goes on.
  const auto other = PushPull(Whole(ann, 0), Filled(100, 1));
  WEIR_ASSERT_OK(PushPull(Whole(bob, 0), Filled(100, 1)).get());
  WEIR_ASSERT_OK(other.get());
  view.AddMember(kEve, /*first_step=*/3).NextGeneration();
  Put(view, kEve, 1);
  v1::CommitStepRequest commit = CommitRequest(2, 2);
  *commit.mutable_view() = view.Make();
  WEIR_ASSERT_OK(server->CommitStep(commit));
  WEIR_ASSERT_OK(held.get());
  const auto pulled = Pull(eve.Pull(eve.SegmentsOf(0), /*step=*/3));
  WEIR_ASSERT_OK(pulled.get());
  EXPECT_EQ(ValuesOf<float>(pulled.get()->payload), Filled(100, -4));
  const auto step = PushPull(Whole(cid, 3), Filled(100, 1));
  EXPECT_FALSE(step.has_come());
  WEIR_ASSERT_OK(PushPull(Whole(eve, 3, 1, /*first_step=*/3), Filled(100, 3)).get());
  EXPECT_EQ(ValuesOf<float>(step.get()->payload), Filled(100, -6));
}

TEST_F(SyncGroupsOnServer, AGroupThatIsNewBeginsWhereTheAttemptBegan) {
  for (const RequestMaker* maker : {&ann, &bob}) {
    WEIR_ASSERT_OK(Push(Whole(*maker, 0), Filled(100, 1)).get());
  }
  view.AddMember(kEve).NextGeneration();
  Put(view, kEve, 2);
  WEIR_ASSERT_OK(server->ApplyView(view.Make()));
  WEIR_ASSERT_OK(PushPull(Whole(eve, 0), Filled(100, 1)).get());
  EXPECT_EQ(Weights(view, 0), Filled(100, -2));
}

// Ann has begun step 1 when the cut is marked and Bob has not: the coordinator asks him to finish
// it first.
TEST_F(SyncGroupsOnServer, ACutIsBetweenTwoStepsOfEachGroup) {
  const auto step_0 = PushPull(Whole(ann, 0), Filled(100, 1));
  WEIR_ASSERT_OK(PushPull(Whole(bob, 0), Filled(100, 1)).get());
  const auto anns = PushPull(Whole(ann, 1), Filled(100, 1));
  v1::PushRequest bobs = Whole(bob, 1);
  bobs.set_cut(1);
  bobs.set_cut_sequence(1);
  const auto held = PushPull(bobs, Filled(100, 3));
  EXPECT_FALSE(held.has_come());
  WEIR_ASSERT_OK_AND_ASSIGN(const auto store, server->Store(kRun));
  CutRequest cut{.cut = 1, .marks = {}};
  for (const auto& [worker, sequence] :
       std::vector<std::pair<uint64_t, uint64_t>>{{kAnn, 2}, {kBob, 2}, {kCid, 0}, {kDan, 0}}) {
    v1::CutMark& mark = cut.marks.emplace_back();
    mark.set_worker(worker);
    mark.set_group(1);
    mark.set_last_sequence(sequence);
  }
  Answer<StoreSnapshot> snapshot;
  store->TakeCut(cut, Soon(), snapshot.Callback());
  WEIR_ASSERT_OK(held.get());
  WEIR_ASSERT_OK(anns.get());
  WEIR_ASSERT_OK(snapshot.get());
  EXPECT_THAT(snapshot.get()->group_steps, ElementsAre(0, 2));
  EXPECT_EQ(snapshot.get()->examples, 4u);
  EXPECT_EQ(snapshot.get()->shards[0].chunks[0].version, 2u);
  WEIR_ASSERT_OK(Push(Whole(cid, 0), Filled(100, 1)).get());
}

// Cid, the last of his group, dies within his push of step 0: that step closes no more.
TEST_F(SyncGroupsOnServer, ACutDoesNotWaitForAGroupThatIsGone) {
  Remove(kDan);
  WEIR_ASSERT_OK(Push(cid.Push(OneSegment(0, 0, 16), 1), Filled(16, 1)).get());
  Remove(kCid);
  v1::PushRequest anns = Whole(ann, 0);
  anns.set_cut(1);
  const auto held = PushPull(anns, Filled(100, 1));
  CutRequest cut{.cut = 1, .marks = {}};
  for (const uint64_t worker : {kAnn, kBob}) {
    v1::CutMark& mark = cut.marks.emplace_back();
    mark.set_worker(worker);
    mark.set_group(1);
  }
  WEIR_ASSERT_OK_AND_ASSIGN(const auto store, server->Store(kRun));
  Answer<StoreSnapshot> snapshot;
  store->TakeCut(cut, Soon(), snapshot.Callback());
  WEIR_ASSERT_OK(snapshot.get());
  EXPECT_EQ(snapshot.get()->shards[0].chunks[0].version, 1u);
  EXPECT_EQ(snapshot.get()->shards[0].chunks[1].version, 0u);
}

std::vector<float> Uneven(uint32_t seed, size_t count) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random()) / 1e9f - 2;
  return values;
}

TEST_F(SyncGroupsOnServer, OneGroupOfAllEqualsSyncBitForBit) {
  std::vector<std::vector<float>> results;
  for (const bool groups : {true, false}) {
    ViewMaker own;
    own.edit().set_run_id(groups ? 100 : 101);
    groups ? own.SyncGroups(2) : own.Sync();
    v1::Adam& adam = *own.optimizer().mutable_adam();
    adam.set_beta1(0.9);
    adam.set_beta2(0.999);
    adam.set_eps(1e-8);
    own.optimizer().mutable_learning_rate()->set_base(0.01);
    own.optimizer().mutable_learning_rate()->set_warm_up_examples(30);
    own.AddVariable("w", 100).AddMember(kAnn).AddMember(kBob);
    StartJob(own);
    const RequestMaker one(own, kAnn);
    const RequestMaker two(own, kBob);
    for (uint32_t step = 0; step < 20; ++step) {
      WEIR_ASSERT_OK(Push(Whole(one, step, 1), Uneven(2 * step, 100)).get());
      WEIR_ASSERT_OK(Push(Whole(two, step, 0.37), Uneven(2 * step + 1, 100)).get());
    }
    results.push_back(Weights(own, 0));
  }
  EXPECT_EQ(results[0], results[1]);
}

}  // namespace
}  // namespace weir
