// SPDX-License-Identifier: Apache-2.0
// Jobs that are stopped by command, whatever goes on beside that.
#include <utility>

#include "tests/unit/coordinator/coordinator_fixture.h"

namespace weir {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kNotSettled = ~uint64_t{0};

class CoordinatorStop : public CoordinatorTest {
 protected:
  void Stop(const std::string& reason = "") {
    v1::StopJobRequest stop;
    stop.set_job("job");
    stop.set_reason(reason);
    WEIR_ASSERT_OK(Call(&Coordinator::StopJob, stop));
  }
  std::string NewestCheckpoint() {
    v1::ListCheckpointsRequest list;
    list.set_job("job");
    const auto reply = Call(&Coordinator::ListCheckpoints, list);
    return reply.ok() && reply->manifests_size() > 0 ? reply->manifests(0).id() : "";
  }
  // No change of a step comes about.
  void LetNobodyPrepare() {
    servers_.prepare.answer = [](const auto&, const auto&) -> absl::StatusOr<v1::PrepareStepReply> {
      return absl::UnavailableError("away");
    };
  }
  void LetAllPrepare() {
    servers_.prepare.answer = [](const auto&, const auto&) { return v1::PrepareStepReply(); };
  }
};

TEST_F(CoordinatorStop, InAsyncNoStepIsAgreedOn) {
  RunJob(AsyncJob(2), {1, 2});
  Stop();
  EXPECT_TRUE(View().stop());
  EXPECT_EQ(View().stop_step(), 0u);
  EXPECT_THAT(servers_.prepare.calls, IsEmpty());
}

// Handed out ahead, and not trained on yet: the run that goes on from there trains on it.
TEST_F(CoordinatorStop, WhatItsWorkersStillHeldIsInItsCheckpoint) {
  v1::JobSpec spec = AsyncJob(2);
  spec.mutable_checkpoint()->set_at_end(true);
  RunJob(spec, {1, 2});
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::TakeRangesReply taken, Take(1, 1, 100));
  ASSERT_THAT(taken.ranges(), SizeIs(1));
  const v1::DataRange& range = taken.ranges(0);
  ASSERT_GT(range.end(), range.first() + 10);
  servers_.saved_step = 1;
  WEIR_ASSERT_OK(Report(1, 1, 10));
  Stop();
  WEIR_ASSERT_OK(Leave(1, true));
  WEIR_ASSERT_OK(Leave(2, true));
  ASSERT_THAT(Checkpoints(), SizeIs(1));
  const v1::Manifest manifest = Checkpoints()[0];
  EXPECT_EQ(manifest.next_position(), range.end());
  ASSERT_THAT(manifest.unfinished(), SizeIs(1));
  EXPECT_EQ(manifest.unfinished(0).first(), range.first() + 10);
  EXPECT_EQ(manifest.unfinished(0).end(), range.end());
}

TEST_F(CoordinatorStop, ASecondStopChangesNothing) {
  RunJob(SyncJob(2), {1, 2});
  WEIR_ASSERT_OK(Beat(1, 40));
  Stop("too dear");
  const v1::JobView stopping = View();
  ASSERT_EQ(stopping.stop_step(), 43u);
  WEIR_ASSERT_OK(Beat(1, 42));
  Stop("once more");
  EXPECT_EQ(View().DebugString(), stopping.DebugString());
}

TEST_F(CoordinatorStop, AJobThatWaitsIsStoppedAtOnce) {
  WEIR_ASSERT_OK(Join(1, SyncJob(2)));
  ASSERT_EQ(View().state(), v1::JOB_STATE_WAITING);
  Stop();
  EXPECT_EQ(View().state(), v1::JOB_STATE_STOPPED);
}

// Worker 2 leaves between the servers' agreement and the view that tells the workers of it.
TEST_F(CoordinatorStop, AnAgreementThatAnotherViewHasOvertakenIsMadeOnceMore) {
  RunJob(SyncJob(2), {1, 2});
  WEIR_ASSERT_OK(Beat(1, 40));
  bool left = false;
  servers_.commit.answer = [&](const auto&, const auto&) {
    if (!std::exchange(left, true)) {
      WEIR_EXPECT_OK(Leave(2, false, "power"));
    }
    return v1::CommitStepReply();
  };
  Stop();
  ASSERT_TRUE(left);
  EXPECT_EQ(View().stop_step(), kNotSettled);
  Pass(2 * kTick, {1}, {900, 901});
  EXPECT_EQ(View().stop_step(), 43u);
  EXPECT_THAT(servers_.commit.calls, SizeIs(4));
  EXPECT_THAT(servers_.commit.calls.back().second.view().members(), SizeIs(1));
}

// Server-0 has the view of the agreement in force when the coordinator dies.
TEST_F(CoordinatorStop, AnAgreementThatWasHalfCommittedIsMadeAnewAndIsNewer) {
  RunJob(SyncJob(1), {1});
  DieBetweenCommits();
  v1::StopJobRequest stop;
  stop.set_job("job");
  (void)Start<v1::StopJobReply>([&](Coordinator::Done<v1::StopJobReply> done) {
    coordinator_->StopJob(stop, std::move(done));
  });
  ASSERT_EQ(coordinator_, nullptr);
  const v1::JobView lost = servers_.commit.calls.front().second.view();
  servers_.commit.answer = [](const auto&, const auto&) { return v1::CommitStepReply(); };
  Boot();
  EXPECT_TRUE(View().stop());
  EXPECT_GT(View().generation(), lost.generation());
  EXPECT_GT(View().version(), lost.version());
  Pass(absl::Seconds(3), {1}, {900, 901});
  EXPECT_LT(View().stop_step(), kNotSettled);
}

TEST_F(CoordinatorStop, WhoseStepIsAgreedOnInAnAttemptThatIsUndoneStopsAtOnceInTheNext) {
  RunJob(SyncJob(1), {1});
  WEIR_ASSERT_OK(Beat(1, 40));
  Stop();
  ASSERT_EQ(View().stop_step(), 43u);
  WEIR_ASSERT_OK(AddServer("server-0", 950));  // restarted
  EXPECT_EQ(View().attempt(), 2u);
  EXPECT_TRUE(View().stop());
  EXPECT_EQ(View().stop_step(), 0u);
}

// Worker 2 has registered, and waits for a step on which it can join.
TEST_F(CoordinatorStop, NobodyJoinsAJobThatStops) {
  v1::JobSpec spec = SyncJob(2);
  spec.set_min_workers(1);
  RunJob(spec, {1});
  LetNobodyPrepare();
  WEIR_ASSERT_OK(Join(2, spec));
  LetAllPrepare();
  Stop();
  Pass(absl::Seconds(3), {1, 2}, {900, 901});
  EXPECT_THAT(View().members(), SizeIs(1));
}

TEST_F(CoordinatorStop, WhoWaitsToJoinDoesNotKeepAStoppedJobAlive) {
  v1::JobSpec spec = SyncJob(2);
  spec.set_min_workers(1);
  RunJob(spec, {1});
  LetNobodyPrepare();
  WEIR_ASSERT_OK(Join(2, spec));
  Stop();
  WEIR_ASSERT_OK(Leave(1, true));
  EXPECT_EQ(View().state(), v1::JOB_STATE_STOPPED);
}

TEST_F(CoordinatorStop, AnOrphanOnWhichNobodyHasTrainedSinceItsCheckpointIsNotSavedAgain) {
  v1::JobSpec spec = SyncJob(1);
  spec.mutable_checkpoint()->set_at_end(true);
  RunJob(spec, {1});
  WEIR_ASSERT_OK(Leave(1, false, "power"));
  servers_.saved_step = 8;
  Save();
  const std::string saved = NewestCheckpoint();
  ASSERT_NE(saved, "");
  Stop();
  EXPECT_EQ(View().state(), v1::JOB_STATE_STOPPED);
  EXPECT_EQ(NewestCheckpoint(), saved);
}

// Its time to live is over, and it is being saved: a worker comes.
TEST_F(CoordinatorStop, AnOrphanThatAWorkerTakesUpWhileItIsSavedGoesOn) {
  v1::JobSpec spec = AsyncJob(1);
  spec.set_orphan_ttl_ms(60000);
  spec.mutable_checkpoint()->set_at_end(true);
  RunJob(spec, {1});
  WEIR_ASSERT_OK(Leave(1, false, "power"));
  const auto save = servers_.save.answer;
  bool came = false;
  servers_.save.answer = [&](const v1::ServerInfo& server, const v1::SavePartRequest& request) {
    if (!std::exchange(came, true)) {
      WEIR_EXPECT_OK(Join(2, spec));
    }
    return save(server, request);
  };
  Pass(absl::Seconds(61), {}, {900, 901});
  ASSERT_TRUE(came);
  EXPECT_NE(NewestCheckpoint(), "");
  EXPECT_EQ(View().state(), v1::JOB_STATE_RUNNING);
  EXPECT_THAT(View().members(), SizeIs(1));
}

// The second run has failed before it had one: the first one's is not its own.
TEST_F(CoordinatorStop, ACheckpointOfAnEarlierRunIsNotWhatAFailedOneHasLeft) {
  RunJob(SyncJob(1), {1});
  Save();
  ASSERT_NE(NewestCheckpoint(), "");
  WEIR_ASSERT_OK(Leave(1, true));
  v1::JobSpec replacing = SyncJob(1);
  replacing.set_replace(true);
  WEIR_ASSERT_OK(Join(2, replacing));
  executor_.Advance(absl::Seconds(1));  // the newest is the one that ended last
  WEIR_ASSERT_OK(Leave(2, false, "no data"));
  ASSERT_EQ(View().state(), v1::JOB_STATE_FAILED);
  WEIR_EXPECT_OK(Join(3, SyncJob(1)));
}

// The newest one is damaged; the run was asked to begin from the one before it.
TEST_F(CoordinatorStop, WhoNamesACheckpointIsNotToldOfNewerOnesThatAreDamaged) {
  RunJob(SyncJob(1), {1});
  servers_.saved_step = 10;
  Save();
  const std::string older = NewestCheckpoint();
  servers_.saved_step = 20;
  Save();
  const std::string newer = NewestCheckpoint();
  ASSERT_NE(newer, older);
  WEIR_ASSERT_OK(Leave(1, true));
  WEIR_ASSERT_OK(
      files_.WriteFile("/coordinator/checkpoints/job/" + newer + ".manifest", "damaged"));
  Boot();
  WEIR_ASSERT_OK(AddServer("server-0", 900));
  WEIR_ASSERT_OK(AddServer("server-1", 901));
  v1::JobSpec naming = SyncJob(1);
  naming.set_resume(older);
  WEIR_ASSERT_OK(Join(2, naming));
  WEIR_ASSERT_OK(Declare(2, OneVariable()));
  EXPECT_EQ(View().state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(View().resume().checkpoint_id(), older);
  EXPECT_EQ(View().message(), "");
}

}  // namespace
}  // namespace weir
