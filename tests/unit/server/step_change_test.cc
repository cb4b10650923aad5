// SPDX-License-Identifier: Apache-2.0
// Changes that fall on one step: joins and checkpoint cuts (sync).
#include "tests/unit/server/workers_fixture.h"

namespace weir {
namespace {

using ::testing::AllOf;

class StepChange : public WorkersFixture {
 protected:
  void SetUp() override {
    view.Sync().AddVariable("w", 100).AddMember(kAnn).AddMember(kBob);
    StartJob(view);
  }
  void RunStep(uint64_t step) {
    WEIR_ASSERT_OK(PushStep(ann, step).get());
    WEIR_ASSERT_OK(PushStep(bob, step).get());
  }
  absl::StatusOr<v1::PrepareStepReply> Prepare(uint64_t change, uint64_t step, uint64_t term = 1) {
    v1::PrepareStepRequest request = PrepareRequest(change, step);
    request.set_term(term);
    return server->PrepareStep(request);
  }
  Answer<v1::PushReply> PushStep(const RequestMaker& maker, uint64_t step) {
    return Push(Whole(maker, step), Filled(100, 1));
  }
  absl::Status CommitCut(uint64_t change, uint64_t step, uint64_t cut) {
    v1::CommitStepRequest request = CommitRequest(change, step);
    request.set_cut(cut);
    return server->CommitStep(request);
  }
  absl::Status Abort(uint64_t change) {
    return server->AbortStep(OfChange<v1::AbortStepRequest>(change));
  }
  Answer<StoreSnapshot> TakeCut(uint64_t cut) {
    Answer<StoreSnapshot> answer;
    const auto store = server->Store(view.view().run_id());
    EXPECT_THAT(store, IsOk());
    (*store)->TakeCut({.cut = cut, .marks = {}}, Soon(), answer.Callback());
    return answer;
  }
};

TEST_F(StepChange, APreparedStepIsHeldAndLetGoOfByAbort) {
  RunStep(0);
  WEIR_ASSERT_OK(Prepare(1, 1));
  const auto held = PushStep(ann, 1);
  EXPECT_FALSE(held.has_come());
  WEIR_ASSERT_OK(Abort(1));
  WEIR_ASSERT_OK(held.get());
  WEIR_ASSERT_OK(Abort(1));
}

TEST_F(StepChange, AHoldExpiresAfterTwoSeconds) {
  WEIR_ASSERT_OK(Prepare(1, 0));
  const auto held = PushStep(ann, 0);
  executor.Advance(absl::Milliseconds(1900));
  EXPECT_FALSE(held.has_come());
  executor.Advance(absl::Milliseconds(200));
  WEIR_ASSERT_OK(held.get());
  EXPECT_THAT(CommitCut(1, 0, 5), HasStatus(absl::StatusCode::kAborted, HasSubstr("change 1")));
}

// In the first step of an attempt nobody knows how many updates it has: one that is closed by all
// need not be its last.
TEST_F(StepChange, AStepInWhichAGroupMayBeUpdatedAgainIsOverWhenAllHaveComeToTheNext) {
  const auto update = [&](const RequestMaker& maker, uint64_t step, uint64_t group_step) {
    v1::PushRequest request = Whole(maker, group_step);
    request.set_step(step);
    request.set_may_update_again(step == 0);
    return Push(request, Filled(100, 1));
  };
  for (const RequestMaker* maker : {&ann, &bob}) WEIR_ASSERT_OK(update(*maker, 0, 0).get());
  WEIR_ASSERT_OK(Prepare(1, 1));
  WEIR_ASSERT_OK(CommitCut(1, 1, 5));
  const auto cut = TakeCut(5);
  EXPECT_FALSE(cut.has_come());
  for (const RequestMaker* maker : {&ann, &bob}) WEIR_ASSERT_OK(update(*maker, 0, 1).get());
  EXPECT_FALSE(cut.has_come());
  const auto of_ann = update(ann, 1, 2);
  EXPECT_FALSE(cut.has_come());
  const auto of_bob = update(bob, 1, 2);
  WEIR_ASSERT_OK(cut.get());
  EXPECT_EQ(cut.get()->step, 1u);
  EXPECT_EQ(cut.get()->group_steps[1], 2u);
  WEIR_ASSERT_OK(of_ann.get());
  WEIR_ASSERT_OK(of_bob.get());
}

TEST_F(StepChange, StepsBeforeThePreparedOneGoOn) {
  WEIR_ASSERT_OK(Prepare(1, 2));
  RunStep(0);
  RunStep(1);
  EXPECT_FALSE(PushStep(ann, 2).has_come());
  EXPECT_EQ(Weights(view, 0), Filled(100, -2));
}

TEST_F(StepChange, AStepThatHasBegunCannotBePrepared) {
  RunStep(0);
  WEIR_ASSERT_OK(PushStep(ann, 1).get());
  const auto refused = Prepare(1, 1);
  EXPECT_THAT(refused, HasStatus(absl::StatusCode::kFailedPrecondition, ::testing::_));
  EXPECT_EQ(HighestBegunStep(refused.status()), absl::optional<uint64_t>(1));
  const auto accepted = Prepare(1, 2);
  WEIR_ASSERT_OK(accepted);
  EXPECT_EQ(accepted->highest_open_step(), 1u);
}

TEST_F(StepChange, PreparingIsIdempotent) {
  WEIR_ASSERT_OK(Prepare(1, 3));
  WEIR_ASSERT_OK(Prepare(1, 3));
}

TEST_F(StepChange, ALaterPreparationReplacesOneThatIsNotCommitted) {
  WEIR_ASSERT_OK(Prepare(1, 0));
  const auto held = PushStep(ann, 0);
  WEIR_ASSERT_OK(Prepare(2, 5));
  executor.Advance(absl::Seconds(1));
  EXPECT_THAT(Prepare(1, 0), HasStatus(absl::StatusCode::kFailedPrecondition, ::testing::_));
  WEIR_ASSERT_OK(Abort(1));
  WEIR_ASSERT_OK(CommitCut(2, 5, 9));
  WEIR_ASSERT_OK(held.get());
}

TEST_F(StepChange, ACommittedChangeGivesWayToALaterTermAlone) {
  WEIR_ASSERT_OK(Prepare(1, 3));
  WEIR_ASSERT_OK(CommitCut(1, 3, 9));
  EXPECT_THAT(Prepare(2, 3),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("change 1")));
  // A coordinator that has come back does not know of change 1.
  WEIR_ASSERT_OK(Prepare(3, 3, /*term=*/2));
}

TEST_F(StepChange, ALowerTermIsRefused) {
  WEIR_ASSERT_OK(Prepare(1, 3, /*term=*/5));
  EXPECT_THAT(Prepare(2, 3, /*term=*/4),
              HasStatus(absl::StatusCode::kAborted, HasSubstr("term 5")));
}

TEST_F(StepChange, ACommittedCutIsTakenWhenAllStepsBeforeAreClosed) {
  RunStep(0);
  WEIR_ASSERT_OK(Prepare(1, 2));
  WEIR_ASSERT_OK(CommitCut(1, 2, /*cut=*/9));
  const auto cut = TakeCut(9);
  EXPECT_FALSE(cut.has_come());
  WEIR_ASSERT_OK(PushStep(ann, 1).get());
  const auto held = PushStep(ann, 2);
  EXPECT_FALSE(held.has_come());
  EXPECT_FALSE(cut.has_come());
  WEIR_ASSERT_OK(PushStep(bob, 1).get());
  WEIR_ASSERT_OK(cut.get());
  WEIR_ASSERT_OK(held.get());
  WEIR_ASSERT_OK(PushStep(bob, 2).get());
  const StoreSnapshot& snapshot = *cut.get();
  EXPECT_EQ(snapshot.step, 2u);
  EXPECT_EQ(snapshot.group_steps, (std::vector<uint64_t>{0, 2}));
  EXPECT_EQ(snapshot.examples, 4u);
  ASSERT_EQ(snapshot.shards.size(), 2u);
  for (const ShardSnapshot& shard : snapshot.shards) {
    for (const ChunkSnapshot& chunk : shard.chunks) {
      EXPECT_EQ(chunk.version, 2u);
      float first = 0;
      std::memcpy(&first, chunk.weights.data(), sizeof(first));
      EXPECT_EQ(first, -2);
    }
  }
  EXPECT_EQ(Weights(view, 0), Filled(100, -3));
}

// Steps do not wait for state.
TEST_F(StepChange, ABoundaryWaitsForStateThatIsBeingWritten) {
  view = ViewMaker();
  view.edit().set_run_id(kRun + 1);
  view.Sync().AddVariable("w", 100).AddVariable("s", 1, /*group=*/0).AddMember(kAnn);
  view.AddMember(kBob);
  StartJob(view);
  RunStep(0);
  WEIR_ASSERT_OK(Prepare(1, 1));
  Answer<StoreSnapshot> cut;
  const auto commit = [&] {
    WEIR_ASSERT_OK(CommitCut(1, 1, 9));
    cut = TakeCut(9);
    EXPECT_FALSE(cut.has_come());
  };
  v1::PushRequest state = ann.Push(ann.SegmentsOf(1), 1, /*group=*/0);
  server->Push(state, PayloadOf(Filled(1, 7), commit), Soon(), Answer<v1::PushReply>().Callback());
  WEIR_ASSERT_OK(cut.get());
  EXPECT_EQ(cut.get()->group_steps, (std::vector<uint64_t>{1, 1}));
}

TEST_F(StepChange, ACutThatIsTakenLaterIsStillThatOfItsStep) {
  WEIR_ASSERT_OK(Prepare(1, 1));
  WEIR_ASSERT_OK(CommitCut(1, 1, 9));
  WEIR_ASSERT_OK(CommitCut(1, 1, 9));
  RunStep(0);
  RunStep(1);
  const auto cut = TakeCut(9);
  WEIR_ASSERT_OK(cut.get());
  EXPECT_EQ(cut.get()->shards[0].chunks[0].version, 1u);
  EXPECT_THAT(TakeCut(9).get(), HasStatus(absl::StatusCode::kAborted, HasSubstr("cut 9")));
}

TEST_F(StepChange, ACutThatWasNeverCommittedIsAborted) {
  EXPECT_THAT(TakeCut(3).get(), HasStatus(absl::StatusCode::kAborted, HasSubstr("cut 3")));
}

TEST_F(StepChange, ACutThatNobodyTakesIsDroppedAfterAMinute) {
  WEIR_ASSERT_OK(Prepare(1, 1));
  WEIR_ASSERT_OK(CommitCut(1, 1, 9));
  RunStep(0);
  executor.Advance(absl::Seconds(61));
  EXPECT_THAT(TakeCut(9).get(), HasStatus(absl::StatusCode::kAborted, ::testing::_));
}

TEST_F(StepChange, AJoinComesInForceAtItsStep) {
  WEIR_ASSERT_OK(Prepare(1, 1));
  ViewMaker after = view;
  after.AddMember(kCid, /*first_step=*/1).NextGeneration();
  v1::CommitStepRequest commit = CommitRequest(1, 1);
  *commit.mutable_view() = after.Make();
  WEIR_ASSERT_OK(server->CommitStep(commit));
  // Still the old view.
  RunStep(0);
  // Now the new one: the old generation is out of date.
  EXPECT_TRUE(IsStaleView(PushStep(ann, 1).get().status()));
  view = after;
  WEIR_ASSERT_OK(PushStep(ann, 1).get());
  WEIR_ASSERT_OK(PushStep(bob, 1).get());
  EXPECT_EQ(Weights(view, 0), Filled(100, -1));
  v1::PushRequest first = cid.Push(cid.SegmentsOf(0), 1);
  first.set_step(1);
  first.set_group_step(1);
  WEIR_ASSERT_OK(Push(first, Filled(100, 1)).get());
  EXPECT_EQ(Weights(view, 0), Filled(100, -2));
}

TEST_F(StepChange, TheDeathOfAMemberCanReachTheBoundary) {
  WEIR_ASSERT_OK(Prepare(1, 1));
  WEIR_ASSERT_OK(CommitCut(1, 1, 9));
  WEIR_ASSERT_OK(PushStep(ann, 0).get());
  const auto cut = TakeCut(9);
  EXPECT_FALSE(cut.has_come());
  WEIR_ASSERT_OK(server->ApplyView(view.RemoveMember(kBob).NextGeneration().Make()));
  WEIR_ASSERT_OK(cut.get());
  EXPECT_EQ(cut.get()->step, 1u);
}

// One worker brings the values, as of a local optimizer. It leaves when half of them have come.
TEST_F(StepChange, ACutIsRefusedWhereTheValuesOfItsLastStepHaveNotAllCome) {
  ViewMaker job;
  job.edit().set_run_id(kRun + 1);
  job.Sync().AddVariable("w", 100).AddMember(kAnn).AddMember(kBob);
  job.optimizer().mutable_average();
  StartJob(job);
  const RequestMaker pusher(job, kAnn), other(job, kBob);
  const auto store = *server->Store(kRun + 1);
  const auto cut_at = [&](uint64_t change, uint64_t step) {
    v1::PrepareStepRequest prepare = PrepareRequest(change, step);
    prepare.set_run_id(kRun + 1);
    WEIR_EXPECT_OK(server->PrepareStep(prepare));
    v1::CommitStepRequest commit = CommitRequest(change, step);
    commit.set_run_id(kRun + 1);
    commit.set_cut(change);
    WEIR_EXPECT_OK(server->CommitStep(commit));
  };
  const auto taken = [&](uint64_t cut) {
    Answer<StoreSnapshot> answer;
    store->TakeCut({.cut = cut, .marks = {}}, Soon(), answer.Callback());
    return answer.get();
  };
  const auto none = [&](uint64_t sequence) {
    v1::PushRequest request = other.Push(Absent(other.SegmentsOf(0)), sequence);
    request.set_weight(0);
    return request;
  };
  cut_at(7, 1);
  WEIR_ASSERT_OK(Push(pusher.Push(OneSegment(0, 0, 16), 1), Filled(16, 5)).get());
  WEIR_ASSERT_OK(Push(none(1), std::vector<float>()).get());
  WEIR_ASSERT_OK(server->ApplyView(job.RemoveMember(kAnn).NextGeneration().Make()));
  EXPECT_THAT(taken(7), HasStatus(absl::StatusCode::kUnavailable,
                                  AllOf(HasSubstr("'w'"), HasSubstr("step 0"))));
  cut_at(8, 2);
  WEIR_ASSERT_OK(Push(other.Push(other.SegmentsOf(0), 2), Filled(100, 6)).get());
  WEIR_EXPECT_OK(taken(8));
  EXPECT_EQ(Weights(job, 0), Filled(100, 6));
}

TEST_F(StepChange, WhereAGroupDoesNotStepMembersThatHaveGoneOnReachTheBoundary) {
  ViewMaker gan;
  gan.edit().set_run_id(kRun + 1);
  gan.Sync().AddGroup("generator");
  gan.AddVariable("d", 16, 1).AddVariable("g", 16, 2).AddMember(kAnn);
  StartJob(gan);
  const RequestMaker maker(gan, kAnn);
  v1::PrepareStepRequest prepare = PrepareRequest(1, 2);
  prepare.set_run_id(kRun + 1);
  WEIR_ASSERT_OK(server->PrepareStep(prepare));
  v1::CommitStepRequest commit = CommitRequest(1, 2);
  commit.set_run_id(kRun + 1);
  commit.set_cut(9);
  WEIR_ASSERT_OK(server->CommitStep(commit));
  Answer<StoreSnapshot> cut;
  (*server->Store(kRun + 1))->TakeCut({.cut = 9, .marks = {}}, Soon(), cut.Callback());
  // Steps 0 and 1 are of the discriminator alone.
  WEIR_ASSERT_OK(Push(maker.Push(maker.SegmentsOf(0), 1), Filled(16, 1)).get());
  WEIR_ASSERT_OK(Push(maker.Push(maker.SegmentsOf(0), 2), Filled(16, 1)).get());
  EXPECT_FALSE(cut.has_come());
  WEIR_ASSERT_OK(Push(maker.Push(maker.SegmentsOf(0), 3), Filled(16, 1)).get());
  WEIR_ASSERT_OK(cut.get());
  EXPECT_EQ(cut.get()->group_steps, (std::vector<uint64_t>{0, 2, 0}));
}

TEST_F(StepChange, AsyncJobsHaveNoStepsToPrepare) {
  ViewMaker async;
  async.AddVariable("w", 16).AddMember(kAnn);
  async.edit().set_run_id(kRun + 1);
  StartJob(async);
  v1::PrepareStepRequest request;
  request.set_term(1);
  request.set_run_id(kRun + 1);
  request.set_attempt(1);
  EXPECT_THAT(server->PrepareStep(request),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("sync")));
}

}  // namespace
}  // namespace weir
