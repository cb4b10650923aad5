// SPDX-License-Identifier: Apache-2.0
// How jobs end: finished by all, left by all, stopped.
#include <algorithm>

#include "absl/strings/match.h"
#include "tests/unit/coordinator/coordinator_fixture.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class CoordinatorEnd : public CoordinatorTest {
 protected:
  // Has no more to do; `other` is heard after it has asked for the first time.
  absl::StatusOr<v1::LeaveReply> LeaveTo(uint64_t other, uint64_t worker) {
    (void)LeaveUnlessLast(worker);
    executor_.Advance(absl::Milliseconds(1));
    EXPECT_THAT(Beat(other), IsOk());
    return LeaveUnlessLast(worker);
  }
};

TEST_F(CoordinatorEnd, JobIsFinishedWhenAllHaveLeftFinishedAndItsMemoryIsFree) {
  RunJob(AsyncJob(2), {1, 2});
  WEIR_ASSERT_OK(Leave(1, true));
  EXPECT_EQ(View().state(), v1::JOB_STATE_RUNNING);
  WEIR_ASSERT_OK(Leave(2, true));
  EXPECT_EQ(View().state(), v1::JOB_STATE_FINISHED);
  WEIR_EXPECT_OK(Leave(2, true)) << "idempotent";
  v1::WatchRequest watch;  // a server that comes now
  std::vector<SharedWatchEvent> events;
  WEIR_ASSERT_OK(coordinator_->Watch(watch, [&](const auto& event) { events.push_back(event); }));
  executor_.RunAll();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_TRUE(events[0]->snapshot());
  EXPECT_THAT(events[0]->live_runs(), IsEmpty());
}

TEST_F(CoordinatorEnd, NothingIsKeptOfTheRangesOfAJobThatHasEnded) {
  const auto ranges_kept = [this] {
    const auto kept = store_.Load();
    return std::count_if(kept->begin(), kept->end(), [](const auto& entry) {
      return absl::StartsWith(entry.first, "ranges/");
    });
  };
  RunJob(AsyncJob(2), {1, 2});
  WEIR_ASSERT_OK(Take(1, 1, 50));
  EXPECT_EQ(ranges_kept(), 1);
  WEIR_ASSERT_OK(Leave(1, true));
  WEIR_ASSERT_OK(Leave(2, true));
  EXPECT_EQ(ranges_kept(), 0) << "ended by the last who left";
  v1::JobSpec other = AsyncJob(2);
  other.set_name("other");
  WEIR_ASSERT_OK(Join(3, other));
  WEIR_ASSERT_OK(Stop("other"));
  ASSERT_EQ(View("other").state(), v1::JOB_STATE_STOPPED);
  WEIR_ASSERT_OK(Leave(3, true));
  EXPECT_EQ(ranges_kept(), 0) << "left after its end";
}

TEST_F(CoordinatorEnd, NothingIsKeptOfARunThatIsForgotten) {
  v1::JobSpec spec = AsyncJob(1);
  WEIR_ASSERT_OK(Join(1, spec));
  WEIR_ASSERT_OK(Leave(1, false));
  // As builds before this one left them.
  const std::string run = absl::StrCat(absl::Hex(runs_["job"], absl::kZeroPad16));
  WEIR_ASSERT_OK(store_.Write({{"ranges/" + run, v1::RangesRecord().SerializeAsString()}}));
  for (uint64_t worker = 2; worker <= 201; ++worker) {
    executor_.Advance(absl::Milliseconds(1));
    WEIR_ASSERT_OK(Join(worker, spec));
    WEIR_ASSERT_OK(Leave(worker, false));
  }
  executor_.Advance(kTick);
  WEIR_ASSERT_OK_AND_ASSIGN(const auto kept, store_.Load());
  for (const auto& [key, value] : kept) EXPECT_THAT(key, Not(HasSubstr(run)));
}

TEST_F(CoordinatorEnd, FinishedNameIsRefusedUnlessReplaced) {
  RunJob(AsyncJob(1), {1});
  const uint64_t run = View().run_id();
  WEIR_ASSERT_OK(Leave(1, true));
  EXPECT_THAT(Join(2, AsyncJob(1)),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("has finished")));
  v1::JobSpec resumed = AsyncJob(1);
  resumed.set_resume("latest");
  EXPECT_THAT(Join(2, resumed),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("has no checkpoint")));
  v1::JobSpec replacing = AsyncJob(1);
  replacing.set_replace(true);
  WEIR_ASSERT_OK(Join(2, replacing));
  EXPECT_NE(View().run_id(), run);
}

TEST_F(CoordinatorEnd, OrphanEndsAfterItsTimeToLive) {
  v1::JobSpec spec = AsyncJob(1);
  spec.set_orphan_ttl_ms(60000);
  RunJob(spec, {1});
  WEIR_ASSERT_OK(Leave(1, false, "out of disk"));
  EXPECT_EQ(View().state(), v1::JOB_STATE_RUNNING);
  EXPECT_THAT(View().message(), HasSubstr("out of disk"));
  Pass(absl::Seconds(59), {}, {900, 901});
  EXPECT_EQ(View().state(), v1::JOB_STATE_RUNNING);
  Pass(absl::Seconds(2), {}, {900, 901});
  EXPECT_EQ(View().state(), v1::JOB_STATE_FAILED);
}

// What has no more to do at once everywhere must not leave the job to nobody.
TEST_F(CoordinatorEnd, OfAllThatLeaveUnlessTheyAreTheLastTheLastOneStaysAndCanEndTheJob) {
  RunJob(SyncJob(3), {1, 2, 3});
  for (const uint64_t worker : {3, 1}) {
    WEIR_ASSERT_OK_AND_ASSIGN(const v1::LeaveReply left, LeaveTo(2, worker));
    EXPECT_EQ(left.last_in_view(), 0u);
  }
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::LeaveReply stays, LeaveUnlessLast(2));
  EXPECT_EQ(stays.last_in_view(), View().version());
  ASSERT_THAT(View().members(), SizeIs(1));
  EXPECT_EQ(View().members(0).worker(), 2u);
  WEIR_EXPECT_OK(Beat(2));
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::LeaveReply repeated, LeaveUnlessLast(1));
  EXPECT_EQ(repeated.last_in_view(), 0u) << "it has left";
  WEIR_ASSERT_OK(Leave(2, true));
  EXPECT_EQ(View().state(), v1::JOB_STATE_FINISHED);
}

TEST_F(CoordinatorEnd, WhoIsAboutToJoinIsSomebodyToLeaveTheJobTo) {
  RunJob(SyncJob(2), {1, 2});
  WEIR_ASSERT_OK(Leave(2, false, "power"));
  servers_.prepare.answer = [](const auto&, const auto&) -> absl::StatusOr<v1::PrepareStepReply> {
    return absl::UnavailableError("not now");
  };
  WEIR_ASSERT_OK(Join(3, SyncJob(2)));
  ASSERT_THAT(View().members(), SizeIs(1));
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::LeaveReply left, LeaveTo(3, 1));
  EXPECT_EQ(left.last_in_view(), 0u);
}

// Worker 1 is dead from the start, and its lease is not over when the data of worker 2 ends.
TEST_F(CoordinatorEnd, NobodyLeavesAJobToAWorkerThatMayBeDead) {
  RunJob(AsyncJob(2), {1, 2});
  EXPECT_THAT(LeaveUnlessLast(2),
              HasStatus(absl::StatusCode::kUnavailable, HasSubstr("rank 0 (host-1)")));
  Pass(kLease - absl::Seconds(1), {2}, {900, 901});
  EXPECT_THAT(LeaveUnlessLast(2), HasStatus(absl::StatusCode::kUnavailable, HasSubstr("silent")));
  Pass(absl::Seconds(2), {2}, {900, 901});
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::LeaveReply stays, LeaveUnlessLast(2));
  EXPECT_EQ(stays.last_in_view(), View().version());
  WEIR_ASSERT_OK(Leave(2, true));
  EXPECT_EQ(View().state(), v1::JOB_STATE_FINISHED);
}

TEST_F(CoordinatorEnd, WhoAsksToLeaveIsHeardByTheOthersWhoAskToo) {
  RunJob(AsyncJob(2), {1, 2});
  for (const uint64_t worker : {1, 2}) {
    EXPECT_THAT(LeaveUnlessLast(worker), HasStatus(absl::StatusCode::kUnavailable, HasSubstr("")));
    executor_.Advance(absl::Milliseconds(1));
  }
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::LeaveReply left, LeaveUnlessLast(1));
  EXPECT_EQ(left.last_in_view(), 0u);
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::LeaveReply stays, LeaveUnlessLast(2));
  EXPECT_EQ(stays.last_in_view(), View().version());
}

TEST_F(CoordinatorEnd, WorkerThatComesBackAdoptsAnOrphan) {
  v1::JobSpec spec = SyncJob(1);
  spec.set_orphan_ttl_ms(60000);
  RunJob(spec, {1});
  WEIR_ASSERT_OK(Beat(1, 5));
  WEIR_ASSERT_OK(Leave(1, false, "power"));
  WEIR_ASSERT_OK(Join(2, spec));
  ASSERT_THAT(View().members(), SizeIs(1));
  EXPECT_EQ(View().members(0).first_step(), 5) << "which the orphan's last worker had not begun";
  Pass(absl::Seconds(70), {2}, {900, 901});
  EXPECT_EQ(View().state(), v1::JOB_STATE_RUNNING);
}

TEST_F(CoordinatorEnd, StoppedJobTellsItsWorkersAndEndsWhenTheyHaveLeft) {
  RunJob(AsyncJob(2), {1, 2});
  v1::StopJobRequest stop;
  stop.set_job("job");
  stop.set_reason("too dear");
  WEIR_ASSERT_OK(Call(&Coordinator::StopJob, stop));
  EXPECT_TRUE(View().stop());
  EXPECT_EQ(View().state(), v1::JOB_STATE_RUNNING);
  WEIR_ASSERT_OK(Leave(1, true));
  WEIR_ASSERT_OK(Leave(2, true));
  EXPECT_EQ(View().state(), v1::JOB_STATE_STOPPED);
  EXPECT_EQ(View().message(), "stopped by command: too dear");
}

// A push of step 41 may have been held without the news; none of 42 counts without it.
TEST_F(CoordinatorEnd, StoppedSyncJobStopsBeforeTheSameStepEverywhere) {
  RunJob(SyncJob(2), {1, 2});
  WEIR_ASSERT_OK(Beat(1, 40));
  const uint64_t generation = View().generation();
  v1::StopJobRequest stop;
  stop.set_job("job");
  WEIR_ASSERT_OK(Call(&Coordinator::StopJob, stop));
  ASSERT_THAT(servers_.commit.calls, SizeIs(2));
  const v1::CommitStepRequest& commit = servers_.commit.calls[0].second;
  EXPECT_EQ(commit.step(), 41);
  EXPECT_EQ(commit.view().generation(), generation + 1);
  EXPECT_TRUE(View().stop());
  EXPECT_EQ(View().stop_step(), 43);
  EXPECT_EQ(View().generation(), generation + 1);
  WEIR_ASSERT_OK(Call(&Coordinator::StopJob, stop)) << "idempotent";
  EXPECT_EQ(View().stop_step(), 43);
}

TEST_F(CoordinatorEnd, StoppedSyncJobStopsAlsoWhereNoStepCanBeAgreedOn) {
  RunJob(SyncJob(2), {1, 2});
  servers_.prepare.answer = [&](const auto&, const auto&) -> absl::StatusOr<v1::PrepareStepReply> {
    EXPECT_EQ(View().stop_step(), ~uint64_t{0}) << "until then nobody stops";
    return absl::UnavailableError("away");
  };
  v1::StopJobRequest stop;
  stop.set_job("job");
  WEIR_ASSERT_OK(Call(&Coordinator::StopJob, stop));
  EXPECT_TRUE(View().stop());
  EXPECT_EQ(View().stop_step(), 0);
}

}  // namespace
}  // namespace weir
