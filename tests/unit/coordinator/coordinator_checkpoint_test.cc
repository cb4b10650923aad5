// SPDX-License-Identifier: Apache-2.0
// Checkpoints: cuts, commits, what becomes due, what goes, and restores.
#include "rpc/errors.h"
#include "tests/unit/coordinator/coordinator_fixture.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

using CoordinatorCheckpoints = CoordinatorTest;

TEST_F(CoordinatorCheckpoints, SyncCutFallsOnOneStepOnAllServers) {
  RunJob(SyncJob(2), {1, 2});
  WEIR_ASSERT_OK(Beat(1, 40));
  servers_.saved_step = 40;
  servers_.saved_examples = 800;
  const auto saved = Save();
  ASSERT_TRUE(saved->has_value());
  WEIR_ASSERT_OK(**saved);
  ASSERT_THAT(servers_.commit.calls, SizeIs(2));
  EXPECT_EQ(servers_.commit.calls[0].second.step(), 40);
  EXPECT_FALSE(servers_.commit.calls[0].second.has_view());
  const uint64_t cut = servers_.commit.calls[0].second.cut();
  EXPECT_NE(cut, 0);
  ASSERT_THAT(servers_.save.calls, SizeIs(2));
  EXPECT_EQ(servers_.save.calls[0].second.cut(), cut);
  EXPECT_EQ(View().cut(), 0) << "workers mark cuts in async alone";
  ASSERT_THAT(Checkpoints(), SizeIs(1));
  EXPECT_EQ(Checkpoints()[0].step(), 40);
  EXPECT_EQ(Checkpoints()[0].examples(), 800);
  EXPECT_THAT(Checkpoints()[0].parts(), SizeIs(2));
  EXPECT_EQ(servers_.save.calls[0].second.directory(), absl::StrCat("job/", Checkpoints()[0].id()));
}

TEST_F(CoordinatorCheckpoints, TwoAskedForAtOnceBecomeOne) {
  RunJob(SyncJob(1), {1});
  servers_.shard_map = View().shard_map();
  v1::SaveCheckpointRequest request;
  request.set_job("job");
  std::vector<std::string> ids;
  for (int i = 0; i < 2; ++i) {
    coordinator_->SaveCheckpoint(request, clock_.Now() + absl::Minutes(1), [&](const auto& reply) {
      ids.push_back(reply.ok() ? reply->manifest().id() : reply.status().ToString());
    });
  }
  executor_.RunAll();
  ASSERT_THAT(ids, SizeIs(2));
  EXPECT_EQ(ids[0], ids[1]);
  EXPECT_THAT(Checkpoints(), SizeIs(1));
}

TEST_F(CoordinatorCheckpoints, OneAskedForAfterTheCutGetsItsOwn) {
  RunJob(AsyncJob(1), {1});
  const auto first = Save();
  // The mark is what the cut is; while the parts are written somebody asks again.
  std::vector<std::string> ids;
  servers_.save.answer = [&](const v1::ServerInfo& server, const v1::SavePartRequest& request) {
    if (ids.empty()) {
      ids.emplace_back("asked");
      v1::SaveCheckpointRequest again;
      again.set_job("job");
      coordinator_->SaveCheckpoint(again, clock_.Now() + absl::Minutes(1), [&](const auto& reply) {
        ids.push_back(reply.ok() ? reply->manifest().id() : reply.status().ToString());
      });
    }
    return servers_.PartOf(server, request);
  };
  WEIR_ASSERT_OK(Mark(1));
  ASSERT_TRUE(first->has_value());
  EXPECT_THAT(ids, SizeIs(1));
  WEIR_ASSERT_OK(Mark(1));
  ASSERT_THAT(ids, SizeIs(2));
  EXPECT_NE(ids[1], (**first)->manifest().id());
  EXPECT_THAT(Checkpoints(), SizeIs(2));
}

TEST_F(CoordinatorCheckpoints, AsyncCutIsOfTheMarksOfAllAndKeepsTheDataPosition) {
  RunJob(AsyncJob(2), {1, 2});
  WEIR_ASSERT_OK(Take(1, 1, 50));  // 0 .. 50
  WEIR_ASSERT_OK(Take(2, 1, 30));  // 50 .. 80
  const auto saved = Save();
  const uint64_t cut = View().cut();
  EXPECT_NE(cut, 0);
  WEIR_ASSERT_OK(Mark(1, 20));
  EXPECT_THAT(servers_.save.calls, IsEmpty());
  WEIR_ASSERT_OK_AND_ASSIGN(const auto none, Take(1, 2, 50));
  EXPECT_THAT(none.ranges(), IsEmpty()) << "while a cut is marked the data stands still";
  EXPECT_FALSE(none.end_of_data());
  WEIR_ASSERT_OK(Mark(2, 30));
  ASSERT_TRUE(saved->has_value());
  WEIR_ASSERT_OK(**saved);
  ASSERT_THAT(servers_.save.calls, SizeIs(2));
  EXPECT_THAT(servers_.save.calls[0].second.marks(), SizeIs(2));
  const v1::Manifest manifest = Checkpoints()[0];
  EXPECT_EQ(manifest.next_position(), 80);
  ASSERT_THAT(manifest.unfinished(), SizeIs(1));
  EXPECT_EQ(manifest.unfinished(0).first(), 20);
  EXPECT_EQ(manifest.unfinished(0).end(), 50);
  WEIR_ASSERT_OK_AND_ASSIGN(const auto more, Take(1, 2, 50, 50));
  EXPECT_THAT(more.ranges(), SizeIs(1));
}

TEST_F(CoordinatorCheckpoints, ExamplesThatTheDeadReportedWhileACutWasMarkedAreNotGivenOutAgain) {
  RunJob(AsyncJob(2), {1, 2});
  WEIR_ASSERT_OK(Take(1, 1, 50));  // 0 .. 50
  WEIR_ASSERT_OK(Take(2, 1, 30));  // 50 .. 80
  const auto saved = Save();
  WEIR_ASSERT_OK(Take(1, 2, 50, 20));
  WEIR_ASSERT_OK(Leave(1, false, "power"));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto taken, Take(2, 2, 30, 30));
  ASSERT_THAT(taken.ranges(), SizeIs(1));
  EXPECT_EQ(taken.ranges(0).first(), 20);
  EXPECT_EQ(taken.ranges(0).end(), 50);
}

TEST_F(CoordinatorCheckpoints, LostMarkIsWaitedForInVainAndTheCutTriedAgain) {
  RunJob(AsyncJob(2), {1, 2});
  const auto saved = Save();
  const uint64_t cut = View().cut();
  WEIR_ASSERT_OK(Mark(1));
  Pass(absl::Seconds(7), {1, 2}, {900, 901});
  EXPECT_FALSE(saved->has_value());
  EXPECT_GT(View().cut(), cut);
  WEIR_ASSERT_OK(Mark(1));
  WEIR_ASSERT_OK(Mark(2));
  ASSERT_TRUE(saved->has_value());
  WEIR_EXPECT_OK(**saved);
}

TEST_F(CoordinatorCheckpoints, FailedPartLeavesThePreviousCheckpointAndIsDropped) {
  RunJob(SyncJob(1), {1});
  const std::string first = SaveAt(5, 50);
  int failures = 0;
  servers_.save.answer =
      [&](const v1::ServerInfo& server,
          const v1::SavePartRequest& request) -> absl::StatusOr<v1::SavePartReply> {
    if (server.name() == "server-1" && failures++ < 1) {
      return absl::ResourceExhaustedError("disk full");
    }
    return servers_.PartOf(server, request);
  };
  const auto second = Save();
  EXPECT_FALSE(second->has_value());
  ASSERT_THAT(Checkpoints(), SizeIs(1));
  EXPECT_EQ(Checkpoints()[0].id(), first);
  ASSERT_THAT(servers_.drop.calls, SizeIs(2)) << "both servers forget the part of the failed one";
  Pass(absl::Seconds(2), {1}, {900, 901});
  ASSERT_TRUE(second->has_value()) << "it is tried again";
  WEIR_ASSERT_OK(**second);
  EXPECT_THAT(Checkpoints(), SizeIs(2));
}

TEST_F(CoordinatorCheckpoints, PartsOfTwoStepsAreNoCheckpoint) {
  RunJob(SyncJob(1), {1});
  servers_.save.answer = [&](const v1::ServerInfo& server, const v1::SavePartRequest& request) {
    auto reply = servers_.PartOf(server, request);
    reply->mutable_part()->set_step(server.name() == "server-0" ? 5 : 6);
    return reply;
  };
  const auto saved = Save(absl::Seconds(20));
  Pass(absl::Seconds(21), {1}, {900, 901});
  EXPECT_THAT(Checkpoints(), IsEmpty());
  ASSERT_TRUE(saved->has_value());
  EXPECT_THAT((**saved).status(), HasStatus(absl::StatusCode::kAborted, HasSubstr("one step")));
}

TEST_F(CoordinatorCheckpoints, RestartedServerRaisesTheAttemptAndTheCheckpointIsRestored) {
  RunJob(SyncJob(2), {1, 2});
  WEIR_ASSERT_OK(Beat(1, 40));
  const std::string id = SaveAt(40, 800);
  WEIR_ASSERT_OK(Beat(1, 47));
  servers_.restore.answer = [](const auto&, const auto&) -> absl::StatusOr<v1::RestoreReply> {
    return absl::UnavailableError("still reading");
  };
  WEIR_ASSERT_OK(AddServer("server-1", 950));
  EXPECT_EQ(View().state(), v1::JOB_STATE_RESTORING);
  EXPECT_EQ(View().attempt(), 2);
  EXPECT_EQ(View().resume().checkpoint_id(), id);
  EXPECT_EQ(View().resume().step(), 40);
  EXPECT_EQ(View().resume().lost_steps(), 7);
  EXPECT_EQ(View().members(0).first_step(), 40);
  EXPECT_EQ(View().shard_map().servers(1).incarnation(), 950);
  ASSERT_THAT(servers_.restore.calls, SizeIs(2));
  const v1::RestoreRequest& restore = servers_.restore.calls[0].second;
  EXPECT_EQ(restore.view().attempt(), 2);
  EXPECT_THAT(restore.fetch_addresses(), ElementsAre("", "server-1:4661"));
  servers_.restore.answer = [](const auto&, const auto&) { return v1::RestoreReply(); };
  Pass(absl::Seconds(2), {1, 2}, {900, 950});
  EXPECT_EQ(View().state(), v1::JOB_STATE_RUNNING);
  // A heartbeat of a worker that has not heard of it yet is no progress of this attempt.
  WEIR_ASSERT_OK(Beat(1, 48, 1));
  SaveAt(40, 800);
  EXPECT_EQ(servers_.commit.calls.back().second.step(), 40);
  WEIR_ASSERT_OK(Report(1, 41, 20));
  WEIR_ASSERT_OK(Beat(1, 42, 2));
  SaveAt(42, 840);
  EXPECT_EQ(servers_.commit.calls.back().second.step(), 42);
}

TEST_F(CoordinatorCheckpoints, LostServersShardsGoToTheOthersWhenItsLeaseEnds) {
  RunJob(SyncJob(1), {1});
  SaveAt(10, 100);
  Pass(kLease + kTick, {1}, {900});
  EXPECT_EQ(View().attempt(), 2);
  EXPECT_THAT(View().shard_map().servers(), SizeIs(1));
  EXPECT_EQ(View().state(), v1::JOB_STATE_RUNNING);
  ASSERT_THAT(servers_.restore.calls, SizeIs(1));
  EXPECT_THAT(servers_.restore.calls[0].second.fetch_addresses(), ElementsAre("", ""));
}

TEST_F(CoordinatorCheckpoints, WithoutACheckpointTheJobIsInitialisedAgain) {
  RunJob(SyncJob(2), {1, 2});
  WEIR_ASSERT_OK(Beat(2, 12));
  const auto parked = Enter(1, "end", 1);
  WEIR_ASSERT_OK(AddServer("server-0", 950));
  EXPECT_EQ(View().state(), v1::JOB_STATE_INITIALISING);
  EXPECT_EQ(View().attempt(), 2);
  EXPECT_EQ(View().initialiser(), 1);
  EXPECT_EQ(View().resume().lost_steps(), 12);
  ASSERT_TRUE(parked->has_value());
  EXPECT_TRUE(IsStaleAttempt((**parked).status()));
  WEIR_ASSERT_OK(ReportInitialised(1));
  EXPECT_EQ(View().state(), v1::JOB_STATE_RUNNING);
}

TEST_F(CoordinatorCheckpoints, JobWithoutAnyServerWaitsForOneSayingSo) {
  RunJob(SyncJob(1), {1});
  SaveAt(10, 100);
  Pass(kLease + kTick, {1}, {});
  EXPECT_EQ(View().state(), v1::JOB_STATE_WAITING);
  EXPECT_THAT(View().message(), HasSubstr("server"));
  WEIR_ASSERT_OK(AddServer("server-7", 970));
  EXPECT_EQ(View().state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(View().resume().step(), 10);
}

TEST_F(CoordinatorCheckpoints, DamagedCheckpointGivesWayToTheOneBefore) {
  RunJob(SyncJob(1), {1});
  const std::string older = SaveAt(10, 100);
  const std::string newer = SaveAt(20, 200);
  Damage(newer);
  WEIR_ASSERT_OK(AddServer("server-0", 950));
  EXPECT_EQ(View().state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(View().resume().checkpoint_id(), older);
  EXPECT_EQ(View().resume().step(), 10);
}

TEST_F(CoordinatorCheckpoints, NoIntactCheckpointFailsTheJobNamingTheDamage) {
  RunJob(SyncJob(1), {1});
  SaveAt(10, 100);
  servers_.restore.answer = [](const auto&, const auto&) -> absl::StatusOr<v1::RestoreReply> {
    return absl::DataLossError("000001.sst, shard 3");
  };
  WEIR_ASSERT_OK(AddServer("server-0", 950));
  EXPECT_EQ(View().state(), v1::JOB_STATE_FAILED);
  EXPECT_THAT(View().message(), HasSubstr("damaged"));
}

TEST_F(CoordinatorCheckpoints, NewRunResumesFromTheLatestOnOtherServersWithTheSameShards) {
  RunJob(SyncJob(1), {1});
  const std::string id = SaveAt(30, 300);
  const v1::ShardMap saved = View().shard_map();
  WEIR_ASSERT_OK(Leave(1, true));
  WEIR_ASSERT_OK(AddServer("server-2", 902));
  v1::JobSpec resumed = SyncJob(1);
  resumed.set_resume("latest");
  resumed.set_shard_bytes(1 << 20);  // a wish that the checkpoint overrules
  WEIR_ASSERT_OK(Join(2, resumed));
  v1::Declaration other = OneVariable();
  other.mutable_variables(0)->set_name("renamed");
  EXPECT_THAT(Declare(2, other),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("variables[0].name")));
  v1::Declaration faster = OneVariable();
  faster.mutable_groups(0)->mutable_optimizer()->mutable_learning_rate()->set_base(1);
  WEIR_ASSERT_OK(Declare(2, faster)) << "a changed rate is no other model";
  EXPECT_EQ(View().state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(View().resume().checkpoint_id(), id);
  EXPECT_EQ(View().resume().step(), 30);
  EXPECT_EQ(View().resume().lost_steps(), 0);
  EXPECT_EQ(View().shard_map().shard_bytes(), saved.shard_bytes());
  EXPECT_THAT(View().shard_map().servers(), SizeIs(3));
  EXPECT_EQ(servers_.restore.calls[0].second.layout().shard_bytes(), saved.shard_bytes());
}

TEST_F(CoordinatorCheckpoints, AsyncJobGoesOnWithTheDataAfterARollback) {
  RunJob(AsyncJob(1), {1});
  WEIR_ASSERT_OK(Take(1, 1, 50));  // 0 .. 50
  const auto saved = Save();
  WEIR_ASSERT_OK(Mark(1, 30));
  ASSERT_TRUE(saved->has_value());
  WEIR_ASSERT_OK(Take(1, 2, 100, 50));
  WEIR_ASSERT_OK(AddServer("server-0", 950));
  ASSERT_EQ(View().state(), v1::JOB_STATE_RUNNING);
  WEIR_ASSERT_OK_AND_ASSIGN(const auto again, Take(1, 3, 40));
  ASSERT_THAT(again.ranges(), SizeIs(2));
  EXPECT_EQ(again.ranges(0).first(), 30);
  EXPECT_EQ(again.ranges(0).end(), 50);
  EXPECT_EQ(again.ranges(1).first(), 50);
}

TEST_F(CoordinatorCheckpoints, OrphanIsSavedBeforeItEnds) {
  v1::JobSpec spec = AsyncJob(1);
  spec.set_orphan_ttl_ms(60000);
  spec.mutable_checkpoint()->set_at_end(true);
  RunJob(spec, {1});
  WEIR_ASSERT_OK(Leave(1, false));
  Pass(absl::Seconds(61), {}, {900, 901});
  EXPECT_EQ(View().state(), v1::JOB_STATE_FAILED);
  EXPECT_THAT(Checkpoints(), SizeIs(1));
}

// Worker 1 has seen the stop and left, worker 2 is in a step still: nothing may wait for it. The
// checkpoint is taken when it has left too.
TEST_F(CoordinatorCheckpoints, StoppedJobIsSavedWhenItsWorkersHaveLeft) {
  for (v1::JobSpec spec : {SyncJob(2), AsyncJob(2)}) {
    spec.set_name(spec.regime().kind() == v1::REGIME_SYNC ? "job" : "async");
    spec.mutable_checkpoint()->set_at_end(true);
    servers_.save.calls.clear();
    RunJob(spec, {1, 2});
    WEIR_ASSERT_OK(Stop(spec.name()));
    WEIR_ASSERT_OK(Leave(1, true));
    EXPECT_THAT(servers_.save.calls, IsEmpty());
    EXPECT_THAT(Join(3, spec), HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("stop")));
    WEIR_ASSERT_OK(Leave(2, true));
    EXPECT_THAT(servers_.save.calls, SizeIs(2));
    EXPECT_EQ(View(spec.name()).state(), v1::JOB_STATE_STOPPED);
    EXPECT_THAT(View(spec.name()).message(), HasSubstr("stopped by command"));
    EXPECT_THAT(Checkpoints(spec.name()), SizeIs(1));
  }
}

TEST_F(CoordinatorCheckpoints, StoppedOrphanIsSavedAtOnce) {
  v1::JobSpec spec = SyncJob(1);
  spec.mutable_checkpoint()->set_at_end(true);
  RunJob(spec, {1});
  WEIR_ASSERT_OK(Leave(1, false, "power"));
  WEIR_ASSERT_OK(Stop());
  EXPECT_THAT(servers_.save.calls, SizeIs(2));
  EXPECT_EQ(View().state(), v1::JOB_STATE_STOPPED);
}

}  // namespace
}  // namespace weir
