// SPDX-License-Identifier: Apache-2.0
// What people and tools ask.
#include <utility>

#include "tests/unit/coordinator/coordinator_fixture.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::Pair;

using CoordinatorQueries = CoordinatorTest;

TEST_F(CoordinatorQueries, AnUnknownJobIsNamedToWhoAsksForIt) {
  RunJob(AsyncJob(1), {1});
  const auto unknown =
      HasStatus(absl::StatusCode::kNotFound, HasSubstr("no job 'nothing'; `weir jobs` lists them"));
  v1::ShowJobRequest show;
  show.set_job("nothing");
  EXPECT_THAT(Call(&Coordinator::ShowJob, show), unknown);
  v1::StopJobRequest stop;
  stop.set_job("nothing");
  EXPECT_THAT(Call(&Coordinator::StopJob, stop), unknown);
  EXPECT_FALSE(View().stop());
  v1::SaveCheckpointRequest save;
  save.set_job("nothing");
  const auto saved = Start<v1::SaveCheckpointReply>([&](auto done) {
    coordinator_->SaveCheckpoint(save, clock_.Now() + absl::Minutes(1), std::move(done));
  });
  ASSERT_TRUE(saved->has_value());
  EXPECT_THAT(**saved, HasStatus(absl::StatusCode::kNotFound, HasSubstr("'nothing'")));
}

TEST_F(CoordinatorQueries, OfRunsOfOneNameTheLastIsShownThoughTheClockWasSetBack) {
  v1::JobSpec spec = AsyncJob(1);
  spec.set_replace(true);
  RunJob(spec, {1});
  ASSERT_THAT(Leave(1, /*finished=*/true), IsOk());
  // The ids of runs are random: the one that comes next shall be lower.
  last_random_ = 10;
  clock_.SetNow(clock_.Now() - absl::Minutes(1));
  const absl::StatusOr<v1::RegisterReply> again = Join(2, spec);
  ASSERT_THAT(again, IsOk());
  EXPECT_LT(again->run_id(), 100u);
  ASSERT_THAT(Leave(2, /*finished=*/false, "lost its data"), IsOk());
  v1::ShowJobRequest show;
  show.set_job("job");
  const absl::StatusOr<v1::ShowJobReply> shown = Call(&Coordinator::ShowJob, show);
  ASSERT_THAT(shown, IsOk());
  EXPECT_EQ(shown->job().view().run_id(), again->run_id());
}

class JobsProgress : public CoordinatorTest {
 protected:
  // Steps and examples.
  std::pair<uint64_t, uint64_t> Done() {
    v1::ShowJobRequest show;
    show.set_job("job");
    const absl::StatusOr<v1::ShowJobReply> reply = Call(&Coordinator::ShowJob, show);
    EXPECT_THAT(reply, IsOk());
    if (!reply.ok()) return {};
    return {reply->job().step(), reply->job().examples()};
  }
};

// Pushes of 10 examples: 1 has made 40 and gone, 2 makes the other 60.
TEST_F(JobsProgress, InAsyncAreThePushesOfAllWorkersAndAreKept) {
  RunJob(AsyncJob(2), {1, 2});
  WEIR_ASSERT_OK(Report(1, 40, 400));
  WEIR_ASSERT_OK(Report(2, 20, 200));
  EXPECT_THAT(Done(), Pair(60, 600));
  WEIR_ASSERT_OK(Leave(1, false));
  EXPECT_THAT(Done(), Pair(60, 600)) << "right after a death";
  WEIR_ASSERT_OK(Join(3, AsyncJob(2)));
  EXPECT_THAT(Done(), Pair(60, 600)) << "a newcomer has done nothing yet";
  WEIR_ASSERT_OK(Report(2, 60, 600));
  WEIR_ASSERT_OK(Leave(3, false));
  WEIR_ASSERT_OK(Leave(2, true));
  EXPECT_EQ(View().state(), v1::JOB_STATE_FINISHED);
  EXPECT_EQ(View().message(), "");
  EXPECT_THAT(Done(), Pair(100, 1000));
  Boot();
  EXPECT_THAT(Done(), Pair(100, 1000));
}

// 1,000 examples in batches of 15: 66 pushes, and a short one.
TEST_F(JobsProgress, InAsyncHasTheLastPushThoughItIsShort) {
  v1::JobSpec spec = AsyncJob(1);
  spec.mutable_data()->mutable_batch()->set_global(15);
  RunJob(spec, {1});
  WEIR_ASSERT_OK(Report(1, 67, 1000));
  WEIR_ASSERT_OK(Leave(1, true));
  EXPECT_THAT(Done(), Pair(67, 1000));
}

// Of 20 examples each; 1 has the half of them.
TEST_F(JobsProgress, InSyncAreTheStepsOfAllTogether) {
  RunJob(SyncJob(2), {1, 2});
  for (const uint64_t worker : {1, 2}) WEIR_ASSERT_OK(Report(worker, 40, 400));
  EXPECT_THAT(Done(), Pair(40, 800));
  WEIR_ASSERT_OK(Leave(1, false));
  EXPECT_THAT(Done(), Pair(40, 800)) << "its share counts";
  WEIR_ASSERT_OK(Report(2, 50, 700));
  WEIR_ASSERT_OK(Leave(2, true));
  EXPECT_THAT(Done(), Pair(50, 1000));
  Boot();
  EXPECT_THAT(Done(), Pair(50, 1000));
}

TEST_F(JobsProgress, OfTwoSyncGroupsAreTheStepsOfBoth) {
  v1::JobSpec spec = AsyncJob(4);  // groups of 2: steps of 20
  spec.mutable_regime()->set_kind(v1::REGIME_SYNC_GROUPS);
  spec.mutable_regime()->set_sync_group_size(2);
  RunJob(spec, {1, 2, 3, 4});
  for (const uint64_t worker : {1, 2, 3, 4}) WEIR_ASSERT_OK(Report(worker, 10, 100));
  EXPECT_THAT(Done(), Pair(20, 400));
}

// Its last report is still on its way.
TEST_F(JobsProgress, WhoLeavesTellsHowFarItHasCome) {
  RunJob(AsyncJob(1), {1});
  WEIR_ASSERT_OK(Report(1, 40, 400));
  v1::LeaveRequest leave;
  leave.set_run_id(run_of_[1]);
  leave.set_worker(1);
  leave.set_finished(true);
  leave.set_attempt(1);
  leave.mutable_progress()->set_step(100);
  leave.mutable_progress()->set_examples(1000);
  WEIR_ASSERT_OK(Call(&Coordinator::Leave, leave));
  EXPECT_THAT(Done(), Pair(100, 1000));
}

// It is interrupted between two reports.
TEST_F(JobsProgress, WhatALeaverHasPushedAfterItsLastReportIsDoneAndCounts) {
  RunJob(AsyncJob(2), {1, 2});
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::TakeRangesReply held, Take(1, 1, 100));
  WEIR_ASSERT_OK(Report(1, 1, 10));
  v1::LeaveRequest leave;
  leave.set_run_id(run_of_[1]);
  leave.set_worker(1);
  leave.set_attempt(1);
  leave.mutable_progress()->set_step(1);
  leave.mutable_progress()->set_examples(10);
  leave.mutable_progress()->set_consumed(30);
  WEIR_ASSERT_OK(Call(&Coordinator::Leave, leave));
  EXPECT_THAT(Done(), Pair(3, 30));
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::TakeRangesReply back, Take(2, 1, 100));
  EXPECT_EQ(back.ranges(0).first(), held.ranges(0).first() + 30);
}

TEST_F(JobsProgress, WhatALeaverDidInAnAttemptThatIsUndoneDoesNotCount) {
  RunJob(AsyncJob(2), {1, 2});
  WEIR_ASSERT_OK(AddServer("server-0", 950));  // restarted
  ASSERT_EQ(View().attempt(), 2u);
  v1::LeaveRequest leave;
  leave.set_run_id(run_of_[1]);
  leave.set_worker(1);
  leave.set_attempt(1);
  leave.mutable_progress()->set_step(40);
  leave.mutable_progress()->set_examples(400);
  WEIR_ASSERT_OK(Call(&Coordinator::Leave, leave));
  EXPECT_THAT(Done(), Pair(0, 0));
}

TEST_F(JobsProgress, StepsInHeartbeatsCountForTheAttemptThatTheyBelongToAlone) {
  RunJob(SyncJob(1), {1});
  WEIR_ASSERT_OK(Beat(1, 30, /*attempt=*/0));
  EXPECT_THAT(Done(), Pair(0, 0)) << "of a worker that knows of none";
  WEIR_ASSERT_OK(Beat(1, 30, 1));
  EXPECT_THAT(Done(), Pair(30, 300));
  WEIR_ASSERT_OK(AddServer("server-0", 950));  // restarted
  WEIR_ASSERT_OK(ReportInitialised(1));
  WEIR_ASSERT_OK(Beat(1, 1, 2));
  EXPECT_THAT(Done(), Pair(1, 10));
  WEIR_ASSERT_OK(Report(1, 2, 20));
  WEIR_ASSERT_OK(Beat(1, 30, 1));
  EXPECT_THAT(Done(), Pair(2, 20)) << "one that comes late";
}

TEST_F(JobsProgress, FallsWithARollbackAlone) {
  RunJob(SyncJob(1), {1});
  WEIR_ASSERT_OK(Report(1, 10, 100));
  servers_.saved_step = 10;
  servers_.saved_examples = 100;
  Save();
  WEIR_ASSERT_OK(Report(1, 30, 300));
  EXPECT_THAT(Done(), Pair(30, 300));
  WEIR_ASSERT_OK(AddServer("server-0", 950));
  EXPECT_THAT(Done(), Pair(10, 100));
}

// It is written every 10 s, and with each change.
TEST_F(JobsProgress, OfARunningJobIsAboutKnownAfterTheCoordinatorsDeath) {
  RunJob(AsyncJob(2), {1, 2});
  WEIR_ASSERT_OK(Report(1, 40, 400));
  WEIR_ASSERT_OK(Report(2, 20, 200));
  Pass(absl::Seconds(11), {1, 2}, {900, 901});
  Boot();
  EXPECT_THAT(Done(), Pair(60, 600));
  WEIR_ASSERT_OK(Report(2, 30, 300));
  EXPECT_THAT(Done(), Pair(70, 700));
}

}  // namespace
}  // namespace weir
