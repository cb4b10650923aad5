// SPDX-License-Identifier: Apache-2.0
// Members of a sync job, or of a sync group, that have all gone, and who comes after them.
#include "tests/unit/server/workers_fixture.h"

namespace weir {
namespace {

constexpr uint64_t kDan = 0xd;

// One variable of two chunks.
class Takeover : public WorkersFixture {
 protected:
  static constexpr uint64_t kElements = 32;

  void SetUp() override {
    view.chunk_bytes = 64;
    view.shard_bytes = 128;
    view.Sync().AddVariable("w", kElements).AddMember(kAnn);
    StartJob(view);
  }
  Answer<v1::PushReply> PushStep(const RequestMaker& maker, uint64_t sequence, uint64_t step) {
    v1::PushRequest request = maker.Push(maker.SegmentsOf(0), sequence);
    request.set_step(step);
    request.set_group_step(step);
    return Push(request, Filled(kElements, 1));
  }
  // A change at the boundary, prepared; what commits it.
  v1::CommitStepRequest Prepared(uint64_t boundary, uint32_t sync_group = 0) {
    v1::PrepareStepRequest prepare = PrepareRequest(1, boundary);
    prepare.set_sync_group(sync_group);
    WEIR_EXPECT_OK(server->PrepareStep(prepare));
    return CommitRequest(1, boundary);
  }
  // As the coordinator admits a worker.
  void Join(uint64_t worker, uint64_t boundary, uint64_t first_step) {
    v1::CommitStepRequest commit = Prepared(boundary);
    *commit.mutable_view() = view.AddMember(worker, first_step).NextGeneration().Make();
    WEIR_ASSERT_OK(server->CommitStep(commit));
  }
};

TEST_F(Takeover, AStepThatTheLastMemberPushedInHalfDoesNotHoldUpItsSuccessor) {
  WEIR_ASSERT_OK(PushStep(ann, 1, 0).get());
  v1::PushRequest half = ann.Push(OneSegment(0, 0, 16), 2);
  WEIR_ASSERT_OK(Push(half, Filled(16, 1)).get());
  Remove(kAnn);
  Join(kBob, 2, 2);
  WEIR_ASSERT_OK(PushStep(bob, 1, 2).get());
  // Two steps in the second chunk; three in the first, which the push had reached.
  std::vector<float> expected = Filled(kElements, -2);
  std::fill_n(expected.begin(), 16, -3.0f);
  EXPECT_EQ(Weights(view, 0), expected);
}

// The last member's push had reached another server, so that the boundary lies behind it.
TEST_F(Takeover, AServerThatHasNotSeenTheLastStepGoesOnFromTheBoundary) {
  WEIR_ASSERT_OK(PushStep(ann, 1, 0).get());
  Remove(kAnn);
  Join(kBob, 5, 5);
  WEIR_ASSERT_OK(PushStep(bob, 1, 5).get());
  WEIR_ASSERT_OK(PushStep(bob, 2, 6).get());
  EXPECT_EQ(Weights(view, 0), Filled(kElements, -3));
}

TEST_F(Takeover, StepsThatNobodyIsLeftToRunAreSkipped) {
  WEIR_ASSERT_OK(PushStep(ann, 1, 0).get());
  Join(kBob, 2, 4);  // beside ann, who would run the steps 1 to 3
  Remove(kAnn);
  WEIR_ASSERT_OK(PushStep(bob, 1, 4).get());
  EXPECT_EQ(Weights(view, 0), Filled(kElements, -2));
}

// Her chunks are closed, but not counted yet. The watch is faster than the boundary.
TEST_F(Takeover, SuccessorsWaitForAPushThatTheLastMemberLeftWhileItWasApplied) {
  WEIR_ASSERT_OK(PushStep(ann, 1, 0).get());
  Answer<v1::PushReply> bobs;
  const auto take_over = [&] {
    Remove(kAnn);
    view.AddMember(kBob, 2).AddMember(kCid, 2).NextGeneration();
    WEIR_ASSERT_OK(server->ApplyView(view.Make()));
    bobs = PushStep(bob, 1, 2);
    EXPECT_FALSE(bobs.has_come());
  };
  v1::PushRequest last = ann.Push(ann.SegmentsOf(0), 2);
  server->Push(last, PayloadOf(Filled(kElements, 1), take_over), Soon(),
               Answer<v1::PushReply>().Callback());
  WEIR_ASSERT_OK(bobs.get());
  WEIR_ASSERT_OK(PushStep(cid, 1, 2).get());
  EXPECT_EQ(Weights(view, 0), Filled(kElements, -3)) << "after steps 0, 1 and 2";
}

TEST_F(Takeover, ACutIsTakenOfWhatTheLastMemberLeftInHalf) {
  WEIR_ASSERT_OK(Push(ann.Push(OneSegment(0, 0, 16), 1), Filled(16, 1)).get());
  Remove(kAnn);
  v1::CommitStepRequest commit = Prepared(1);
  commit.set_cut(7);
  WEIR_ASSERT_OK(server->CommitStep(commit));
  const auto store = server->Store(kRun);
  WEIR_ASSERT_OK(store);
  Answer<StoreSnapshot> cut;
  (*store)->TakeCut({.cut = 7, .marks = {}}, Soon(), cut.Callback());
  WEIR_ASSERT_OK(cut.get());
  EXPECT_EQ(cut.get()->shards.size(), 1u);
}

// Two optimizers, of which the second steps less often; variable 1 is its own.
class TakeoverOfTwoOptimizers : public Takeover {
 protected:
  void SetUp() override {
    view.chunk_bytes = 64;
    view.shard_bytes = 128;
    view.Sync().AddVariable("w", kElements).AddGroup("second");
    view.AddVariable("v", kElements, /*group=*/2).AddMember(kAnn);
    StartJob(view);
  }
  v1::PushRequest Of(const RequestMaker& maker, uint32_t group, uint64_t sequence, uint64_t step,
                     uint64_t group_step) {
    v1::PushRequest request = maker.Push(maker.SegmentsOf(group - 1), sequence, group);
    request.set_step(step);
    request.set_group_step(group_step);
    return request;
  }
  Answer<v1::PushReply> PushOf(const RequestMaker& maker, uint32_t group, uint64_t sequence,
                               uint64_t step, uint64_t group_step) {
    return Push(Of(maker, group, sequence, step, group_step), Filled(kElements, 1));
  }
};

TEST_F(TakeoverOfTwoOptimizers, WhoIsLeftGoesOnAtEachOptimizersOwnStep) {
  WEIR_ASSERT_OK(PushOf(ann, 1, 1, 0, 0).get());
  WEIR_ASSERT_OK(PushOf(ann, 2, 1, 0, 0).get());
  WEIR_ASSERT_OK(PushOf(ann, 1, 2, 1, 1).get());
  Join(kBob, 2, 2);
  WEIR_ASSERT_OK(server->ApplyView(view.Make()));  // the watch is faster than the boundary
  const auto step_2 = PushOf(ann, 1, 3, 2, 2);
  WEIR_ASSERT_OK(PushOf(bob, 1, 1, 2, 2).get());
  WEIR_ASSERT_OK(step_2.get());
  Remove(kAnn);
  WEIR_ASSERT_OK(PushOf(bob, 1, 2, 3, 3).get());
  WEIR_ASSERT_OK(PushOf(bob, 1, 3, 4, 4).get());
  WEIR_ASSERT_OK(PushOf(bob, 2, 1, 4, 1).get());
  EXPECT_EQ(Weights(view, 0), Filled(kElements, -5));
  EXPECT_EQ(Weights(view, 1), Filled(kElements, -2));
}

// Ann dies within the second optimizer's second push. Where another server has it whole, that step
// is done; where none has, it is done anew.
TEST_F(TakeoverOfTwoOptimizers, ASuccessorSaysWhichStepsOfItsPredecessorAreDone) {
  for (const bool whole_elsewhere : {true, false}) {
    view = ViewMaker();
    view.edit().set_run_id(whole_elsewhere ? 100 : 101);
    SetUp();
    WEIR_ASSERT_OK(PushOf(ann, 1, 1, 0, 0).get());
    WEIR_ASSERT_OK(PushOf(ann, 2, 1, 0, 0).get());
    WEIR_ASSERT_OK(PushOf(ann, 1, 2, 5, 1).get());
    v1::PushRequest half = Of(ann, 2, 2, 5, 1);
    half.clear_segments();
    *half.add_segments() = OneSegment(1, 0, 16)[0];
    WEIR_ASSERT_OK(Push(half, Filled(16, 1)).get());
    Remove(kAnn);
    Join(kBob, 6, 6);
    WEIR_ASSERT_OK(PushOf(bob, 1, 1, 6, 2).get());
    WEIR_ASSERT_OK(PushOf(bob, 2, 1, 6, whole_elsewhere ? 2 : 1).get());
    EXPECT_EQ(Weights(view, 0), Filled(kElements, -3));
    std::vector<float> expected = Filled(kElements, -2);
    std::fill_n(expected.begin(), 16, -3.0f);
    EXPECT_EQ(Weights(view, 1), expected);
  }
}

// Ann is sync group 0, Cid is group 1.
class TakeoverInASyncGroup : public Takeover {
 protected:
  void SetUp() override {
    view.chunk_bytes = 64;
    view.shard_bytes = 128;
    view.SyncGroups(2).AddVariable("w", kElements).AddMember(kAnn).AddMember(kCid);
    view.edit().mutable_members(1)->set_sync_group(1);
    StartJob(view);
  }
  void JoinCid(uint64_t worker, uint64_t boundary, uint64_t first_step) {
    v1::CommitStepRequest commit = Prepared(boundary, /*sync_group=*/1);
    view.AddMember(worker, first_step).NextGeneration();
    view.edit().mutable_members(view.edit().members_size() - 1)->set_sync_group(1);
    *commit.mutable_view() = view.Make();
    WEIR_ASSERT_OK(server->CommitStep(commit));
  }
};

// Bob counts from step 3; Cid, who would run the steps before it, dies within his push of step 1.
TEST_F(TakeoverInASyncGroup, StepsThatNobodyIsLeftToRunAreSkipped) {
  WEIR_ASSERT_OK(PushStep(cid, 1, 0).get());
  JoinCid(kBob, 1, 3);
  v1::PushRequest half = cid.Push(OneSegment(0, 0, 16), 2);
  WEIR_ASSERT_OK(Push(half, Filled(16, 1)).get());
  Remove(kCid);
  const auto pulled = Pull(bob.Pull(bob.SegmentsOf(0), /*step=*/3));
  WEIR_ASSERT_OK(pulled.get());
  WEIR_ASSERT_OK(PushStep(bob, 1, 3).get());
  WEIR_ASSERT_OK(PushStep(bob, 2, 4).get());
  std::vector<float> expected = Filled(kElements, -3);
  std::fill_n(expected.begin(), 16, -4.0f);
  EXPECT_EQ(Weights(view, 0), expected);
}

// Bob was to join Cid at step 2; the coordinator has let that go with Cid's departure.
TEST_F(TakeoverInASyncGroup, AChangeOfAGroupThatIsGoneStandsInNobodysWay) {
  v1::CommitStepRequest commit = Prepared(2, /*sync_group=*/1);
  ViewMaker joined = view;
  joined.AddMember(kBob, 4).NextGeneration();
  *commit.mutable_view() = joined.Make();
  WEIR_ASSERT_OK(server->CommitStep(commit));
  WEIR_ASSERT_OK(Push(cid.Push(OneSegment(0, 0, 16), 1), Filled(16, 1)).get());
  view.NextGeneration();
  Remove(kCid);
  WEIR_ASSERT_OK(server->PrepareStep(PrepareRequest(2, 1)));
  EXPECT_EQ(Weights(view, 0)[31], 0);
}

TEST_F(TakeoverInASyncGroup, OtherGroupsStayWhereTheyAre) {
  view.AddMember(kDan).NextGeneration();
  WEIR_ASSERT_OK(server->ApplyView(view.Make()));
  const auto open = PushPull(ann.Push(ann.SegmentsOf(0), 1), Filled(kElements, 1));
  WEIR_ASSERT_OK(PushStep(cid, 1, 0).get());
  JoinCid(kBob, 1, 3);
  Remove(kCid);
  WEIR_ASSERT_OK(PushStep(bob, 1, 3).get());
  EXPECT_FALSE(open.has_come());
  const RequestMaker dan(view, kDan);
  WEIR_ASSERT_OK(PushStep(dan, 1, 0).get());
  // Steps 0 of Cid and 3 of Bob, and the mean of Ann's and Dan's.
  EXPECT_EQ(ValuesOf<float>(open.get()->payload), Filled(kElements, -3));
}

}  // namespace
}  // namespace weir
