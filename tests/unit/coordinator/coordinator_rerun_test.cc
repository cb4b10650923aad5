// SPDX-License-Identifier: Apache-2.0
// Jobs that are run again: taken up, gone back to a checkpoint, begun anew, or refused.
#include <tuple>
#include <utility>
#include <vector>

#include "tests/unit/coordinator/coordinator_fixture.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr auto kUnavailable = absl::StatusCode::kUnavailable;

class CoordinatorRerun : public CoordinatorTest {
 protected:
  static v1::JobSpec Resuming(v1::JobSpec spec, const std::string& resume) {
    spec.set_resume(resume);
    return spec;
  }
  static v1::JobSpec Replacing(v1::JobSpec spec) {
    spec.set_replace(true);
    return spec;
  }
  std::string LatestCheckpointOf(uint64_t run) {
    const auto listed = Call(&Coordinator::ListJobs, v1::ListJobsRequest());
    EXPECT_THAT(listed, IsOk());
    for (const v1::JobStatus& job : listed->jobs()) {
      if (job.view().run_id() == run) return job.latest_checkpoint();
    }
    return "not listed";
  }
};

TEST_F(CoordinatorRerun, WorkerThatJoinsIsNotAskedToResumeOrReplaceAsTheOthersDid) {
  v1::JobSpec spec = AsyncJob(3);
  spec.set_min_workers(1);
  RunJob(spec, {1});
  const uint64_t run = View().run_id();
  WEIR_ASSERT_OK(Join(2, Resuming(spec, "latest")));
  WEIR_ASSERT_OK(Join(3, Resuming(spec, "auto")));
  EXPECT_EQ(View().run_id(), run);
  EXPECT_THAT(View().members(), SizeIs(3));
}

TEST_F(CoordinatorRerun, JobWithoutWorkersGoesOnFromTheServersStateHoweverItIsResumed) {
  RunJob(SyncJob(1), {1});
  SaveAt(3);
  const uint64_t run = View().run_id();
  WEIR_ASSERT_OK(Beat(1, 5));
  uint64_t worker = 1;
  for (const char* resume : {"", "latest", "auto"}) {
    WEIR_ASSERT_OK(Leave(worker, false, "power"));
    WEIR_ASSERT_OK(Join(++worker, Resuming(SyncJob(1), resume)));
    EXPECT_EQ(View().run_id(), run) << resume;
    EXPECT_EQ(View().state(), v1::JOB_STATE_RUNNING);
    EXPECT_EQ(View().members(0).first_step(), 5) << "newer than the checkpoint";
  }
}

TEST_F(CoordinatorRerun, JobWithoutWorkersGoesBackOnceToTheCheckpointThatIsNamed) {
  RunJob(SyncJob(1), {1});
  const std::string id = SaveAt(3);
  SaveAt(4);
  const uint64_t run = View().run_id();
  WEIR_ASSERT_OK(Leave(1, false, "power"));
  const v1::JobSpec resuming = Resuming(SyncJob(1), id);
  WEIR_ASSERT_OK(Join(2, resuming));
  EXPECT_NE(View().run_id(), run);
  WEIR_ASSERT_OK(Declare(2, OneVariable()));
  EXPECT_EQ(View().resume().checkpoint_id(), id);
  // Its worker comes back with the same job file: it does not go back once more.
  const uint64_t gone_back = View().run_id();
  WEIR_ASSERT_OK(Leave(2, false, "power"));
  WEIR_ASSERT_OK(Join(3, resuming));
  EXPECT_EQ(View().run_id(), gone_back);
}

TEST_F(CoordinatorRerun, JobThatHasLostItsStateResumesFromTheNewestCheckpointOfItsName) {
  RunJob(SyncJob(1), {1});
  const std::string id = SaveAt(3);
  WEIR_ASSERT_OK(Leave(1, true));
  WEIR_ASSERT_OK(Join(2, Replacing(SyncJob(1))));
  WEIR_ASSERT_OK(Declare(2, OneVariable()));
  WEIR_ASSERT_OK(ReportInitialised(2));
  WEIR_ASSERT_OK(Leave(2, false, "power"));
  WEIR_ASSERT_OK(AddServer("server-0", 950));  // restarted: what the second run had is lost
  ASSERT_EQ(View().state(), v1::JOB_STATE_INITIALISING);
  WEIR_ASSERT_OK(Join(3, Resuming(SyncJob(1), "latest")));
  WEIR_ASSERT_OK(Declare(3, OneVariable()));
  EXPECT_EQ(View().resume().checkpoint_id(), id);
}

TEST_F(CoordinatorRerun, EachRunIsListedWithTheNewestCheckpointOfItsOwnElseThatItGoesOnFrom) {
  RunJob(SyncJob(1), {1});
  const uint64_t first = View().run_id();
  EXPECT_EQ(LatestCheckpointOf(first), "");
  const std::string older = SaveAt(3);
  WEIR_ASSERT_OK(Leave(1, true));
  WEIR_ASSERT_OK(Join(2, Resuming(SyncJob(1), "auto")));
  WEIR_ASSERT_OK(Declare(2, OneVariable()));
  const uint64_t second = View().run_id();
  EXPECT_EQ(LatestCheckpointOf(second), older);
  const std::string newer = SaveAt(6);
  EXPECT_EQ(LatestCheckpointOf(second), newer);
  EXPECT_EQ(LatestCheckpointOf(first), older);
}

TEST_F(CoordinatorRerun, JobThatHasLostEverythingCannotBeResumedFromItsLatestCheckpoint) {
  RunJob(SyncJob(1), {1});
  WEIR_ASSERT_OK(Leave(1, false, "power"));
  WEIR_ASSERT_OK(AddServer("server-0", 950));
  EXPECT_THAT(Join(2, Resuming(SyncJob(1), "latest")),
              HasStatus(kFailedPrecondition, HasSubstr("has no checkpoint")));
  WEIR_EXPECT_OK(Join(2, Resuming(SyncJob(1), "auto")));
}

TEST_F(CoordinatorRerun, ReplaceBeginsAnewWhenTheDeadMembersLeasesHaveEnded) {
  RunJob(AsyncJob(2), {1, 2});
  const uint64_t run = View().run_id();
  const v1::JobSpec replacing = Replacing(AsyncJob(2));
  EXPECT_THAT(Join(3, replacing),
              HasStatus(kUnavailable, HasSubstr("when its lease ends, in 10s")));
  Pass(absl::Seconds(9), {}, {900, 901});
  EXPECT_THAT(Join(3, replacing), HasStatus(kUnavailable, HasSubstr("silent for 9s")));
  Pass(absl::Seconds(2), {}, {900, 901});
  WEIR_ASSERT_OK(Join(3, replacing));
  EXPECT_NE(View().run_id(), run);
  // The other worker of the new run joins it, once it is certain that the first one lives.
  EXPECT_THAT(Join(4, replacing), HasStatus(kUnavailable, HasSubstr("lease")));
  executor_.Advance(absl::Seconds(1));
  WEIR_ASSERT_OK(Beat(3));
  WEIR_ASSERT_OK(Join(4, replacing));
  EXPECT_THAT(View().members(), SizeIs(2));
}

TEST_F(CoordinatorRerun, ReplaceOfOneMemberWaitsForTheOtherDeadOne) {
  RunJob(AsyncJob(2), {1, 2});
  const uint64_t run = View().run_id();
  Pass(absl::Seconds(5), {2}, {900, 901});
  EXPECT_THAT(Join(3, Replacing(AsyncJob(2))), HasStatus(kUnavailable, HasSubstr("lease")));
  Pass(absl::Seconds(6), {}, {900, 901});  // the lease of 1 has ended, that of 2 not yet
  ASSERT_THAT(View().members(), SizeIs(1));
  EXPECT_THAT(Join(3, Replacing(AsyncJob(2))), HasStatus(kUnavailable, HasSubstr("lease")));
  Pass(absl::Seconds(5), {}, {900, 901});
  WEIR_ASSERT_OK(Join(3, Replacing(AsyncJob(2))));
  EXPECT_NE(View().run_id(), run);
}

TEST_F(CoordinatorRerun, JobThatIsBeingTrainedIsNotReplaced) {
  RunJob(AsyncJob(2), {1, 2});
  (void)Join(3, Replacing(AsyncJob(2)));
  Pass(absl::Seconds(2), {1, 2}, {900, 901});
  EXPECT_THAT(Join(3, Replacing(AsyncJob(2))),
              HasStatus(kFailedPrecondition,
                        AllOf(HasSubstr("trained by 2 workers"), HasSubstr("weir stop job"))));
  EXPECT_THAT(View().members(), SizeIs(2));
}

TEST_F(CoordinatorRerun, RerunRightAfterItsWorkersDeathWaitsForTheirLeases) {
  RunJob(AsyncJob(2), {1, 2});
  Boot();  // the coordinator has died with them
  EXPECT_THAT(Join(3, AsyncJob(2), 0), HasStatus(kUnavailable, HasSubstr("rank 0 (host-1)")));
  Pass(kLease + kTick, {}, {900, 901});
  WEIR_ASSERT_OK_AND_ASSIGN(const auto joined, Join(3, AsyncJob(2), 0));
  EXPECT_EQ(joined.rank(), 0);
}

TEST_F(CoordinatorRerun, StoppedJobIsNotSilentlyBegunAnew) {
  v1::JobSpec spec = SyncJob(1);
  spec.mutable_checkpoint()->set_at_end(true);
  RunJob(spec, {1});
  WEIR_ASSERT_OK(Report(1, 30, 300));
  servers_.saved_step = 30;
  WEIR_ASSERT_OK(Stop());
  WEIR_ASSERT_OK(Leave(1, true));
  ASSERT_THAT(Checkpoints(), SizeIs(1));
  EXPECT_THAT(
      Join(2, spec),
      HasStatus(kFailedPrecondition,
                AllOf(HasSubstr("job 'job' was stopped by command; "),
                      HasSubstr("go on from checkpoint 00000001-1 at step 30 with resume: auto"),
                      HasSubstr("begin anew with replace: true"))));
  WEIR_ASSERT_OK(Join(2, Resuming(spec, "auto")));
  WEIR_ASSERT_OK(Declare(2, OneVariable()));
  EXPECT_EQ(View().resume().step(), 30);
}

TEST_F(CoordinatorRerun, StoppedJobWithoutACheckpointSaysSo) {
  RunJob(SyncJob(1), {1});
  WEIR_ASSERT_OK(Stop());
  WEIR_ASSERT_OK(Leave(1, true));
  EXPECT_THAT(Join(2, SyncJob(1)),
              HasStatus(kFailedPrecondition,
                        HasSubstr("left no checkpoint; begin anew with replace: true")));
}

// 60,000 examples in batches of 64 a worker: 235 steps an epoch for 4 workers, 118 for 8, 469
// for 2. Step 1178 of 4 is 3 steps of 256 into epoch 5: a whole one of 512, six of 128. A death has
// left 64 examples out of what the servers have applied: the place in the data is the same.
TEST_F(CoordinatorRerun, SyncStepsAreOfTheNumberOfWorkersThatGoesOn) {
  const auto job_of = [](uint32_t workers) {
    v1::JobSpec spec = SyncJob(workers);
    spec.set_min_workers(1);
    spec.set_train_examples(60'000);
    spec.mutable_data()->mutable_batch()->set_per_replica(64);
    spec.mutable_length()->set_epochs(10);
    return spec;
  };
  RunJob(job_of(4), {1});
  const std::string between_epochs = SaveAt(1175, 300'000 - 64);
  const std::string within_one = SaveAt(1178, 300'768 - 64);
  WEIR_ASSERT_OK(Leave(1, true));
  uint64_t worker = 1;
  for (const auto& [workers, between, within] :
       std::vector<std::tuple<uint32_t, uint64_t, uint64_t>>{
           {8, 590, 591}, {4, 1175, 1178}, {2, 2345, 2351}}) {
    for (const auto& [id, step] : {std::pair(between_epochs, between), {within_one, within}}) {
      WEIR_ASSERT_OK(Join(++worker, Resuming(job_of(workers), id)));
      WEIR_ASSERT_OK(Declare(worker, OneVariable()));
      EXPECT_EQ(View().resume().step(), step) << workers << " workers from " << id;
      EXPECT_EQ(View().members(0).first_step(), step);
      EXPECT_EQ(servers_.restore.calls.back().second.view().resume().step(), step);
      WEIR_ASSERT_OK(Leave(worker, true));
    }
  }
}

// Of batches of 10 the third is done when the cut is marked: 30 of 1,000 examples, and 7 pushes are
// nothing that `sync` counts. Two of its workers have a batch of 20.
TEST_F(CoordinatorRerun, AsyncJobGoesOnInSyncAtTheStepThatItsExamplesMake) {
  RunJob(AsyncJob(1), {1});
  WEIR_ASSERT_OK(Take(1, 1, 50));
  servers_.saved_step = 7;
  const auto saved = Save();
  WEIR_ASSERT_OK(Mark(1, 30));
  ASSERT_TRUE(saved->has_value());
  WEIR_ASSERT_OK(Leave(1, true));
  v1::JobSpec spec = SyncJob(2);
  spec.set_min_workers(1);
  WEIR_ASSERT_OK(Join(2, Resuming(spec, "auto")));
  WEIR_ASSERT_OK(Declare(2, OneVariable()));
  EXPECT_EQ(View().resume().step(), 1) << "the half of a step is trained on once more";
}

TEST_F(CoordinatorRerun, SyncJobGoesOnInAsyncWhereItsStepsHaveComeToInTheData) {
  v1::JobSpec spec = SyncJob(2);
  spec.set_min_workers(1);
  RunJob(spec, {1});
  SaveAt(10, 200 - 10);  // a death has left 10 examples out
  WEIR_ASSERT_OK(Leave(1, true));
  spec = AsyncJob(2);
  spec.set_min_workers(1);
  WEIR_ASSERT_OK(Join(2, Resuming(spec, "auto")));
  WEIR_ASSERT_OK(Declare(2, OneVariable()));
  EXPECT_EQ(View().resume().step(), 20) << "pushes of 10 examples";
  WEIR_ASSERT_OK_AND_ASSIGN(const auto taken, Take(2, 1, 10));
  EXPECT_EQ(taken.ranges(0).first(), 200);
}

TEST_F(CoordinatorRerun, FailedResumeLeavesTheCheckpointsOfTheRunBeforeProtected) {
  RunJob(SyncJob(1), {1});
  const std::string id = SaveAt(3);
  WEIR_ASSERT_OK(Leave(1, true));
  const auto refused = HasStatus(kFailedPrecondition, HasSubstr("go on from checkpoint " + id));
  WEIR_ASSERT_OK(Join(2, Resuming(SyncJob(1), "auto")));
  v1::Declaration wider = OneVariable(1 << 21);
  ASSERT_THAT(Declare(2, wider), HasStatus(kFailedPrecondition, HasSubstr("another model")));
  WEIR_ASSERT_OK(Leave(2, false, "another model"));
  ASSERT_EQ(View().state(), v1::JOB_STATE_FAILED);
  EXPECT_THAT(Join(3, SyncJob(1)), refused);
  WEIR_ASSERT_OK(Join(3, Resuming(SyncJob(1), "auto")));
  WEIR_ASSERT_OK(Declare(3, OneVariable()));
  WEIR_ASSERT_OK(Stop());
  WEIR_ASSERT_OK(Leave(3, true));
  ASSERT_EQ(View().state(), v1::JOB_STATE_STOPPED);
  EXPECT_THAT(Join(4, SyncJob(1)), refused);
  WEIR_EXPECT_OK(Join(4, Replacing(SyncJob(1))));
}

// Only the newest 200 ended runs are known.
TEST_F(CoordinatorRerun, CheckpointsOfARunThatIsNoLongerKnownAreNotPushedOut) {
  RunJob(SyncJob(1), {1});
  const std::string id = SaveAt(3);
  WEIR_ASSERT_OK(Leave(1, true));
  v1::JobSpec other = SyncJob(1);
  other.set_name("other");
  for (uint64_t worker = 2; worker < 203; ++worker) {
    executor_.Advance(absl::Milliseconds(1));
    WEIR_ASSERT_OK(Join(worker, other));
    WEIR_ASSERT_OK(Leave(worker, false));
  }
  executor_.Advance(kTick);
  ASSERT_THAT(Call(&Coordinator::ListJobs, v1::ListJobsRequest())->jobs(), SizeIs(200));
  EXPECT_THAT(Join(1000, SyncJob(1)),
              HasStatus(kFailedPrecondition, AllOf(HasSubstr("go on from checkpoint " + id),
                                                   HasSubstr("begin anew with replace: true"))));
  WEIR_ASSERT_OK(Join(1000, Resuming(SyncJob(1), "auto")));
}

TEST_F(CoordinatorRerun, DamagedCheckpointsThatArePassedOverAreNamedWhileTheJobRuns) {
  RunJob(SyncJob(1), {1});
  const std::string older = SaveAt(10);
  const std::string newer = SaveAt(20);
  Damage(newer);
  WEIR_ASSERT_OK(AddServer("server-0", 950));
  EXPECT_EQ(View().resume().checkpoint_id(), older);
  EXPECT_EQ(View().state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(View().message(), "resumed from " + older + " (step 10); " + newer +
                                  " is damaged: on server server-0: 000001.sst, shard 3");
}

TEST_F(CoordinatorRerun, WhatNobodyHasTrainedOnIsSavedOnce) {
  v1::JobSpec spec = SyncJob(1);
  spec.mutable_checkpoint()->mutable_every()->set_seconds(10);
  spec.set_orphan_ttl_ms(10 * 60 * 1000);
  RunJob(spec, {1});
  WEIR_ASSERT_OK(Report(1, 8, 80));
  Pass(absl::Seconds(11), {1}, {900, 901});
  EXPECT_THAT(Checkpoints(), SizeIs(1));
  Pass(absl::Seconds(30), {1}, {900, 901});
  EXPECT_THAT(Checkpoints(), SizeIs(1)) << "no step since";
  WEIR_ASSERT_OK(Report(1, 9, 90));
  Pass(absl::Seconds(1), {1}, {900, 901});
  EXPECT_THAT(Checkpoints(), SizeIs(2));
  WEIR_ASSERT_OK(Leave(1, false, "power"));
  Pass(absl::Seconds(60), {}, {900, 901});
  EXPECT_THAT(Checkpoints(), SizeIs(3)) << "it may have trained after the cut; but once";
  WEIR_ASSERT_OK(Stop());
  EXPECT_THAT(Checkpoints(), SizeIs(3));
  EXPECT_EQ(View().state(), v1::JOB_STATE_STOPPED);
}

}  // namespace
}  // namespace weir
