// SPDX-License-Identifier: Apache-2.0
// A coordinator that was killed knows what it knew.
#include "rpc/errors.h"
#include "tests/unit/coordinator/coordinator_fixture.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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
  v1::ListCheckpointsRequest list;
  WEIR_ASSERT_OK_AND_ASSIGN(const auto reply, Call(&Coordinator::ListCheckpoints, list));
  ASSERT_THAT(reply.manifests(), SizeIs(1));
  EXPECT_EQ(reply.manifests(0).id(), (**saved)->manifest().id());
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
