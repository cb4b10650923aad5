// SPDX-License-Identifier: Apache-2.0
// A coordinator that was killed knows what it knew.
#include "rpc/errors.h"
#include "tests/unit/coordinator/coordinator_fixture.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

using CoordinatorRestart = CoordinatorTest;

TEST_F(CoordinatorRestart, KnowsItsJobsMembersAndShardsUnderANewTerm) {
  RunJob(SyncJob(2), {1, 2});
  const v1::JobView before = View();
  const uint64_t term = coordinator_->term();
  Boot();
  EXPECT_EQ(coordinator_->term(), term + 1);
  v1::JobView after = View();
  EXPECT_GT(after.version(), before.version());
  EXPECT_EQ(after.term(), term + 1);
  after.set_version(before.version());
  after.set_term(before.term());
  EXPECT_EQ(after.DebugString(), before.DebugString());
  WEIR_EXPECT_OK(Beat(1));
  WEIR_EXPECT_OK(BeatServer(900));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto again, Join(2, SyncJob(2)));
  EXPECT_EQ(again.rank(), 1);
  EXPECT_EQ(again.term(), term + 1);
}

TEST_F(CoordinatorRestart, EverybodyHasOneFullLeaseAgain) {
  RunJob(AsyncJob(2), {1, 2});
  Pass(absl::Seconds(9), {1}, {900, 901});
  Boot();  // worker 2 has been silent for 9 s
  Pass(kLease - kTick, {1}, {900, 901});
  EXPECT_THAT(View().members(), SizeIs(2));
  Pass(2 * kTick, {1}, {900, 901});
  EXPECT_THAT(View().members(), SizeIs(1));
  EXPECT_TRUE(IsNotAMember(Beat(2)));
  Boot();
  EXPECT_TRUE(IsNotAMember(Beat(2))) << "whose lease has ended does not come back";
}

TEST_F(CoordinatorRestart, NothingIsAnsweredThatCouldBeForgotten) {
  store_.FailWith(absl::UnavailableError("no space"));
  const absl::StatusOr<v1::RegisterReply> joined = Join(1, SyncJob(1));
  EXPECT_EQ(joined.status().code(), absl::StatusCode::kInternal) << "not answered yet";
  store_.FailWith(absl::OkStatus());
  executor_.Advance(absl::Seconds(1));
  WEIR_ASSERT_OK(Join(1, SyncJob(1)));
  Boot();
  EXPECT_THAT(View().members(), SizeIs(1));
}

TEST_F(CoordinatorRestart, RangesAreStillHandedOutOnce) {
  RunJob(AsyncJob(2), {1, 2});
  WEIR_ASSERT_OK_AND_ASSIGN(const auto first, Take(1, 1, 50));
  Boot();
  WEIR_ASSERT_OK_AND_ASSIGN(const auto repeated, Take(1, 1, 50));
  EXPECT_EQ(repeated.DebugString(), first.DebugString());
  WEIR_ASSERT_OK_AND_ASSIGN(const auto other, Take(2, 1, 50));
  EXPECT_EQ(other.ranges(0).first(), 50);
  Pass(kLease + kTick, {2}, {900, 901});
  WEIR_ASSERT_OK_AND_ASSIGN(const auto again, Take(2, 2, 50));
  EXPECT_EQ(again.ranges(0).first(), 0) << "what the dead held is known too";
}

TEST_F(CoordinatorRestart, CompleteBarrierAnswersWhoHadNotHeard) {
  RunJob(SyncJob(2), {1, 2});
  Enter(1, "end", 3);
  ASSERT_TRUE(Enter(2, "end", 4)->has_value());
  Boot();
  const auto again = Enter(1, "end", 3);
  ASSERT_TRUE(again->has_value());
  EXPECT_EQ((**again)->sums().at("value"), 7);
}

TEST_F(CoordinatorRestart, CheckpointsAreThereAndUnfinishedOnesAreDropped) {
  RunJob(SyncJob(1), {1});
  servers_.saved_step = 10;
  const auto saved = Save();
  ASSERT_TRUE(saved->has_value());
  // Killed while the parts of the next one are written.
  servers_.save.answer = [&](const auto&, const auto&) -> absl::StatusOr<v1::SavePartReply> {
    coordinator_.reset();
    return absl::UnavailableError("never heard");
  };
  Save();
  EXPECT_EQ(coordinator_, nullptr);
  servers_.drop.calls.clear();
  Boot();
  ASSERT_THAT(Checkpoints(), SizeIs(1));
  EXPECT_EQ(Checkpoints()[0].id(), (**saved)->manifest().id());
  Pass(absl::Seconds(11), {1}, {900, 901});
  EXPECT_THAT(servers_.drop.calls, SizeIs(2));
  WEIR_ASSERT_OK(AddServer("server-0", 950));
  EXPECT_EQ(View().resume().step(), 10);
}

TEST_F(CoordinatorRestart, RestoreUnderWayIsAskedForAgain) {
  RunJob(SyncJob(1), {1});
  servers_.saved_step = 10;
  Save();
  servers_.restore.answer = [](const auto&, const auto&) -> absl::StatusOr<v1::RestoreReply> {
    return absl::UnavailableError("reading");
  };
  WEIR_ASSERT_OK(AddServer("server-0", 950));
  ASSERT_EQ(View().state(), v1::JOB_STATE_RESTORING);
  servers_.restore.answer = [](const auto&, const auto&) { return v1::RestoreReply(); };
  Boot();
  EXPECT_EQ(View().state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(View().attempt(), 2);
}

// Server-0 has the newcomer's view in force when the coordinator dies; server-1 has never heard of
// it.
TEST_F(CoordinatorRestart, AJoinThatWasHalfCommittedIsUndone) {
  v1::JobSpec spec = SyncJob(2);
  spec.set_min_workers(1);
  RunJob(spec, {1});
  DieBetweenCommits();
  WEIR_ASSERT_OK(Join(2, spec));
  ASSERT_EQ(coordinator_, nullptr);
  const v1::CommitStepRequest lost = servers_.commit.calls.front().second;
  servers_.commit.answer = [](const auto&, const auto&) { return v1::CommitStepReply(); };
  bool asked_again = false;
  servers_.prepare.answer = [&](const auto&, const v1::PrepareStepRequest& request) {
    EXPECT_GT(request.change_id(), lost.change_id());
    EXPECT_GT(request.term(), lost.term());
    asked_again = true;
    return v1::PrepareStepReply();
  };
  Boot();
  // What undoes it is newer than what was in force, and without the newcomer.
  const v1::JobView undone = View();
  EXPECT_THAT(undone.members(), SizeIs(1));
  EXPECT_GT(undone.version(), lost.view().version());
  EXPECT_GT(undone.generation(), lost.view().generation());
  EXPECT_FALSE(asked_again);
  Pass(absl::Seconds(1), {1, 2}, {900, 901});
  EXPECT_TRUE(asked_again);
  EXPECT_THAT(View().members(), SizeIs(2));
  EXPECT_GT(View().generation(), undone.generation());
  EXPECT_EQ(servers_.commit.calls.back().second.view().generation(), View().generation());
}

// A worker has marked the cut, the other one has not: the coordinator dies with the mark.
TEST_F(CoordinatorRestart, ACutThatWasHalfMarkedIsGoneAndTheDataGoesOn) {
  RunJob(AsyncJob(2), {1, 2});
  WEIR_ASSERT_OK(Take(1, 1, 50));  // 0 .. 50
  WEIR_ASSERT_OK(Take(2, 1, 30));  // 50 .. 80
  Save();
  const uint64_t lost = View().cut();
  ASSERT_NE(lost, 0);
  WEIR_ASSERT_OK(Mark(1, 20));
  Boot();
  WEIR_ASSERT_OK(Mark(2, 30));
  EXPECT_THAT(servers_.save.calls, IsEmpty());
  WEIR_ASSERT_OK_AND_ASSIGN(const auto more, Take(1, 2, 10, 50));
  ASSERT_THAT(more.ranges(), SizeIs(1)) << "the data does not stand still for it";
  EXPECT_EQ(more.ranges(0).first(), 80);
  const auto saved = Save();
  EXPECT_GT(View().cut(), lost);
  WEIR_ASSERT_OK(Mark(1, 55));
  WEIR_ASSERT_OK(Mark(2, 0));
  ASSERT_TRUE(saved->has_value());
  WEIR_ASSERT_OK(**saved);
  // Done are 0 .. 50 and 80 .. 85; still to do are 50 .. 80, 85 .. 90, and from 90 on.
  const v1::Manifest& manifest = (**saved)->manifest();
  EXPECT_EQ(manifest.next_position(), 90);
  std::vector<std::pair<uint64_t, uint64_t>> unfinished;
  for (const v1::DataRange& range : manifest.unfinished()) {
    unfinished.emplace_back(range.first(), range.end());
  }
  EXPECT_THAT(unfinished, UnorderedElementsAre(Pair(50, 80), Pair(85, 90)));
}

TEST_F(CoordinatorRestart, FinishedJobsAreRemembered) {
  RunJob(AsyncJob(1), {1});
  WEIR_ASSERT_OK(Leave(1, true));
  Boot();
  WEIR_ASSERT_OK_AND_ASSIGN(const auto jobs, Call(&Coordinator::ListJobs, v1::ListJobsRequest()));
  ASSERT_THAT(jobs.jobs(), SizeIs(1));
  EXPECT_EQ(jobs.jobs(0).view().state(), v1::JOB_STATE_FINISHED);
  EXPECT_THAT(Join(2, AsyncJob(1)),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("has finished")));
}

TEST_F(CoordinatorRestart, HeartbeatsWriteNothing) {
  RunJob(SyncJob(1), {1});
  const int writes = store_.writes();
  for (int i = 0; i < 10; ++i) {
    WEIR_ASSERT_OK(Beat(1, i));
    WEIR_ASSERT_OK(Report(1, i, i));
  }
  EXPECT_EQ(store_.writes(), writes);
}

}  // namespace
}  // namespace weir
