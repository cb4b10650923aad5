// SPDX-License-Identifier: Apache-2.0
// Members, leases, ranks, starts and joins.
#include "rpc/errors.h"
#include "tests/unit/coordinator/coordinator_fixture.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;

std::vector<uint64_t> WorkersOf(const v1::JobView& view) {
  std::vector<uint64_t> workers;
  for (const v1::Member& member : view.members()) workers.push_back(member.worker());
  return workers;
}

using CoordinatorMembers = CoordinatorTest;

TEST_F(CoordinatorMembers, EqualSpecificationJoinsAndRanksAreTheLowestFreeOnes) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto first, Join(1, SyncJob(3)));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto second, Join(2, SyncJob(3), 2));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto third, Join(3, SyncJob(3)));
  EXPECT_EQ(first.run_id(), second.run_id());
  EXPECT_EQ(first.rank(), 0);
  EXPECT_EQ(second.rank(), 2);
  EXPECT_EQ(third.rank(), 1);
  EXPECT_THAT(WorkersOf(View()), ElementsAre(1, 3, 2));
}

TEST_F(CoordinatorMembers, UnequalSpecificationIsRefusedNamingTheFirstKey) {
  v1::JobSpec spec = SyncJob(2);
  (*spec.mutable_optimizers())["sgd"].mutable_learning_rate()->set_base(0.1);
  WEIR_ASSERT_OK(Join(1, spec));
  v1::JobSpec other = spec;
  (*other.mutable_optimizers())["sgd"].mutable_learning_rate()->set_base(0.2);
  EXPECT_THAT(Join(2, other),
              HasStatus(kFailedPrecondition,
                        HasSubstr("optimizers[sgd].learning_rate.base is 0.1 there and 0.2 here")));
  EXPECT_THAT(WorkersOf(View()), ElementsAre(1));
}

TEST_F(CoordinatorMembers, RegisteringAgainIsTheSameMembership) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto first, Join(1, SyncJob(2)));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto again, Join(1, SyncJob(2)));
  EXPECT_EQ(first.run_id(), again.run_id());
  EXPECT_EQ(first.rank(), again.rank());
  EXPECT_THAT(View().members(), SizeIs(1));
}

TEST_F(CoordinatorMembers, TakenRankIsRefusedAndFreeWhenItsLeaseEnds) {
  RunJob(AsyncJob(2), {1, 2});
  EXPECT_THAT(Join(3, AsyncJob(2)), HasStatus(absl::StatusCode::kUnavailable, HasSubstr("lease")))
      << "nobody knows yet whether the holders live";
  Pass(absl::Seconds(2), {1, 2}, {900, 901});
  EXPECT_THAT(Join(3, AsyncJob(2)), HasStatus(kFailedPrecondition, HasSubstr("all of its 2")));
  EXPECT_THAT(Join(3, AsyncJob(2), 1),
              HasStatus(kFailedPrecondition, HasSubstr("rank 1 is taken")));
  // Worker 2 falls silent: its rank may be had when its lease ends, so the newcomer shall wait.
  EXPECT_THAT(Join(4, AsyncJob(2), 1),
              HasStatus(absl::StatusCode::kUnavailable, HasSubstr("rank 1 (host-2)")));
  Pass(absl::Seconds(11), {1}, {900, 901});
  WEIR_ASSERT_OK_AND_ASSIGN(const auto reply, Join(4, AsyncJob(2)));
  EXPECT_EQ(reply.rank(), 1);
}

TEST_F(CoordinatorMembers, LeaseEndsAtTheFirstTickAfterIt) {
  RunJob(AsyncJob(2), {1, 2});
  WEIR_ASSERT_OK(Beat(2));
  const absl::Time last_beat = clock_.Now();
  const uint64_t generation = View().generation();
  Pass(kLease - kTick, {1}, {900, 901});
  EXPECT_THAT(WorkersOf(View()), ElementsAre(1, 2));
  WEIR_ASSERT_OK(Beat(1));
  executor_.Advance(kTick);
  EXPECT_EQ(clock_.Now() - last_beat, kLease);
  EXPECT_THAT(WorkersOf(View()), ElementsAre(1));
  EXPECT_EQ(View().generation(), generation + 1);
  EXPECT_TRUE(IsNotAMember(Beat(2)));
}

TEST_F(CoordinatorMembers, CoordinatorThatStoodStillEndsNobodysLease) {
  RunJob(AsyncJob(2), {1, 2});
  clock_.SetNow(clock_.Now() + absl::Seconds(30));  // stopped, as by SIGSTOP
  executor_.Advance(kTick);
  EXPECT_THAT(WorkersOf(View()), ElementsAre(1, 2));
  Pass(kLease + kTick, {1}, {900, 901});
  EXPECT_THAT(WorkersOf(View()), ElementsAre(1));
}

TEST_F(CoordinatorMembers, WorkerWithoutProgressCountsAsDead) {
  v1::JobSpec spec = SyncJob(2);
  spec.set_step_timeout_ms(30000);
  RunJob(spec, {1, 2});
  WEIR_ASSERT_OK(Beat(1, 6));
  WEIR_ASSERT_OK(Beat(2, 5));
  Pass(absl::Seconds(29), {1, 2}, {900, 901});  // heartbeats, but no further step
  EXPECT_THAT(WorkersOf(View()), ElementsAre(1, 2));
  executor_.Advance(absl::Seconds(1));
  // Only the one furthest behind: the other waits for it, and has its time from now on.
  EXPECT_THAT(WorkersOf(View()), ElementsAre(1));
  Pass(absl::Seconds(29), {1}, {900, 901});
  EXPECT_THAT(WorkersOf(View()), ElementsAre(1));
}

// Steps of 12 s, of which nothing but heartbeats tells.
TEST_F(CoordinatorMembers, StepsInHeartbeatsAreProgressAlsoAfterARollback) {
  v1::JobSpec spec = SyncJob(2);
  spec.set_step_timeout_ms(30000);
  RunJob(spec, {1, 2});
  WEIR_ASSERT_OK(AddServer("server-0", 950));  // restarted
  WEIR_ASSERT_OK(ReportInitialised(1));
  ASSERT_EQ(View().state(), v1::JOB_STATE_RUNNING);
  for (uint64_t step = 1; step <= 5; ++step) {
    Pass(absl::Seconds(12), {1, 2}, {950, 901});
    ASSERT_THAT(WorkersOf(View()), ElementsAre(1, 2)) << "after " << 12 * step << " s";
    for (const uint64_t worker : {1, 2}) WEIR_ASSERT_OK(Beat(worker, step, /*attempt=*/2));
  }
}

TEST_F(CoordinatorMembers, RankThatTheJobDoesNotHaveIsRefusedBeforeAnythingChanges) {
  const auto refused =
      HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("rank 1: the job has ranks 0 to 0"));
  EXPECT_THAT(Join(1, SyncJob(1), 1), refused);
  EXPECT_THAT(Call(&Coordinator::ListJobs, v1::ListJobsRequest())->jobs(), IsEmpty());
  RunJob(SyncJob(1), {2});
  WEIR_ASSERT_OK(Leave(2, false, "power"));
  v1::JobSpec replacing = SyncJob(1);
  replacing.set_replace(true);
  EXPECT_THAT(Join(3, replacing, 1), refused);
  EXPECT_EQ(View().state(), v1::JOB_STATE_RUNNING) << "its state is in the servers' memory still";
}

TEST_F(CoordinatorMembers, OtherProtocolsAreRefusedNamingBothVersions) {
  v1::RegisterRequest request;
  *request.mutable_spec() = SyncJob(1);
  request.set_worker(1);
  request.set_protocol_min(2);
  request.set_protocol_max(3);
  request.set_build("weir 9");
  EXPECT_THAT(
      Call(&Coordinator::Register, request),
      HasStatus(kFailedPrecondition, HasSubstr("speaks protocol 1, the worker (weir 9) 2")));
}

TEST_F(CoordinatorMembers, BadSpecificationsAreRefusedByTheirKey) {
  v1::JobSpec spec = SyncJob(2);
  spec.set_name("../etc");
  EXPECT_THAT(Join(1, spec), HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("../etc")));
  spec = SyncJob(0);
  EXPECT_THAT(Join(1, spec), HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("workers")));
  spec = SyncJob(2);
  spec.mutable_regime()->clear_kind();
  EXPECT_THAT(Join(1, spec), HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("regime")));
  spec = AsyncJob(2);
  spec.set_deterministic(true);
  EXPECT_THAT(Join(1, spec),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("deterministic")));
  spec = SyncJob(2);
  spec.mutable_regime()->set_backup_workers(2);
  EXPECT_THAT(Join(1, spec),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("backup_workers")));
}

// Each of these numbers would size something here, or overflow in a product.
TEST_F(CoordinatorMembers, SpecificationsBeyondWhatAJobMayHaveAreRefusedByTheirKey) {
  const auto refused = [this](const std::string& key, v1::JobSpec spec) {
    EXPECT_THAT(Join(1, spec), HasStatus(absl::StatusCode::kInvalidArgument,
                                         ::testing::AllOf(HasSubstr(key), HasSubstr("at most"))));
  };
  refused("workers", SyncJob(65537));
  refused("workers", SyncJob(4294967295));
  v1::JobSpec spec = AsyncJob(2);
  spec.mutable_length()->set_epochs(1e300);
  refused("length", spec);
  spec.mutable_length()->set_epochs(1e12 + 1);  // 1e15 examples and a few
  refused("length", spec);
  spec.mutable_length()->set_steps(uint64_t{1} << 60);
  refused("length", spec);
  spec.mutable_length()->set_examples(uint64_t{1} << 63);
  refused("length", spec);
  spec = AsyncJob(2);
  spec.mutable_data()->mutable_batch()->set_global(~uint64_t{0});
  refused("batch", spec);
  spec = AsyncJob(2);
  spec.set_train_examples(~uint64_t{0});
  refused("train", spec);
  spec = AsyncJob(2);
  spec.mutable_checkpoint()->mutable_every()->set_epochs(1e300);
  refused("checkpoint.every", spec);
}

TEST_F(CoordinatorMembers, JobWaitsForWorkersDeclarationAndServersSayingWhich) {
  WEIR_ASSERT_OK(Join(1, SyncJob(2)));
  EXPECT_THAT(View().message(), HasSubstr("1 of 2 have joined"));
  WEIR_ASSERT_OK(Join(2, SyncJob(2)));
  EXPECT_THAT(View().message(), HasSubstr("declare"));
  WEIR_ASSERT_OK(Declare(2, OneVariable()));
  EXPECT_THAT(View().message(), HasSubstr("server"));
  EXPECT_EQ(View().state(), v1::JOB_STATE_WAITING);
  WEIR_ASSERT_OK(AddServer("server-0", 900));
  EXPECT_EQ(View().state(), v1::JOB_STATE_INITIALISING);
  EXPECT_EQ(View().initialiser(), 1);
  EXPECT_THAT(ReportInitialised(2), HasStatus(kFailedPrecondition, HasSubstr("rank 0")));
  WEIR_ASSERT_OK(ReportInitialised(1));
  EXPECT_EQ(View().state(), v1::JOB_STATE_RUNNING);
  WEIR_EXPECT_OK(ReportInitialised(1)) << "idempotent";
}

TEST_F(CoordinatorMembers, InitialiserMovesOnWhenItDies) {
  WEIR_ASSERT_OK(AddServer("server-0", 900));
  WEIR_ASSERT_OK(Join(1, SyncJob(2)));
  WEIR_ASSERT_OK(Join(2, SyncJob(2)));
  WEIR_ASSERT_OK(Declare(1, OneVariable()));
  ASSERT_EQ(View().initialiser(), 1);
  Pass(kLease + kTick, {2}, {900});
  EXPECT_EQ(View().initialiser(), 2);
  WEIR_ASSERT_OK(ReportInitialised(2));
  EXPECT_EQ(View().state(), v1::JOB_STATE_RUNNING);
}

TEST_F(CoordinatorMembers, SecondWorkerJoinsSyncAtAStepThatNoServerHasBegun) {
  v1::JobSpec spec = SyncJob(2);
  spec.set_min_workers(1);
  RunJob(spec, {1});
  WEIR_ASSERT_OK(Beat(1, 40));
  const uint64_t generation = View().generation();
  // Step 43 has begun on one server already: the coordinator tries again behind it.
  servers_.prepare.answer =
      [](const v1::ServerInfo& server,
         const v1::PrepareStepRequest& request) -> absl::StatusOr<v1::PrepareStepReply> {
    if (server.name() == "server-1" && request.step() <= 43)
      return StepHasBegun(request.step(), 43);
    return v1::PrepareStepReply();
  };
  WEIR_ASSERT_OK(Join(2, spec));
  ASSERT_THAT(servers_.commit.calls, SizeIs(2));
  const v1::CommitStepRequest& commit = servers_.commit.calls[0].second;
  EXPECT_EQ(commit.step(), 44);
  EXPECT_THAT(WorkersOf(commit.view()), ElementsAre(1, 2));
  EXPECT_EQ(servers_.abort.calls.front().second.change_id(),
            servers_.prepare.calls.front().second.change_id());
  const v1::JobView view = View();
  EXPECT_THAT(WorkersOf(view), ElementsAre(1, 2));
  // Step 44 is the boundary; 45 may still be divided by the old view, the newcomer counts after it.
  EXPECT_EQ(view.members(1).first_step(), 46);
  EXPECT_EQ(view.members(1).first_step(), commit.view().members(1).first_step());
  EXPECT_EQ(view.generation(), generation + 1);
  EXPECT_EQ(commit.view().generation(), view.generation());
  EXPECT_GT(view.version(), commit.view().version());
}

TEST_F(CoordinatorMembers, AbortedJoinIsUndoneEverywhereAndTriedAgain) {
  v1::JobSpec spec = SyncJob(2);
  spec.set_min_workers(1);
  RunJob(spec, {1});
  bool refuse = true;
  servers_.commit.answer =
      [&](const v1::ServerInfo& server,
          const v1::CommitStepRequest&) -> absl::StatusOr<v1::CommitStepReply> {
    if (refuse && server.name() == "server-1") return absl::AbortedError("the hold ran out");
    return v1::CommitStepReply();
  };
  WEIR_ASSERT_OK(Join(2, spec));
  EXPECT_THAT(WorkersOf(View()), ElementsAre(1));
  EXPECT_THAT(servers_.abort.calls, SizeIs(2));
  // The server that had committed hears of a newer generation without the newcomer.
  EXPECT_GT(View().generation(), servers_.commit.calls[0].second.view().generation());
  EXPECT_GT(View().version(), servers_.commit.calls[0].second.view().version());
  refuse = false;
  Pass(absl::Seconds(2), {1, 2}, {900, 901});
  EXPECT_THAT(WorkersOf(View()), ElementsAre(1, 2));
}

TEST_F(CoordinatorMembers, JoinWaitsUntilAServerAnswersAgain) {
  v1::JobSpec spec = SyncJob(2);
  spec.set_min_workers(1);
  RunJob(spec, {1});
  servers_.prepare.answer = [](const auto&, const auto&) -> absl::StatusOr<v1::PrepareStepReply> {
    return absl::UnavailableError("away");
  };
  WEIR_ASSERT_OK(Join(2, spec));
  EXPECT_THAT(servers_.commit.calls, IsEmpty());
  servers_.prepare.answer = [](const auto&, const auto&) { return v1::PrepareStepReply(); };
  Pass(absl::Seconds(2), {1, 2}, {900, 901});
  EXPECT_THAT(WorkersOf(View()), ElementsAre(1, 2));
}

TEST_F(CoordinatorMembers, WorkerJoinsAsyncAtOnce) {
  v1::JobSpec spec = AsyncJob(2);
  spec.set_min_workers(1);
  RunJob(spec, {1});
  WEIR_ASSERT_OK(Join(2, spec));
  EXPECT_THAT(servers_.prepare.calls, IsEmpty());
  EXPECT_THAT(WorkersOf(View()), ElementsAre(1, 2));
}

TEST_F(CoordinatorMembers, WatchersGetWholeViewsInTheirOrder) {
  WEIR_ASSERT_OK(Join(1, SyncJob(2)));
  v1::WatchRequest request;
  request.set_run_id(runs_["job"]);
  std::vector<uint64_t> versions;
  std::vector<int> members;
  WEIR_ASSERT_OK(coordinator_->Watch(request, [&](const SharedWatchEvent& event) {
    versions.push_back(event->view().version());
    members.push_back(event->view().members_size());
  }));
  WEIR_ASSERT_OK(Join(2, SyncJob(2)));
  WEIR_ASSERT_OK(Leave(2, false));
  EXPECT_THAT(members, ElementsAre(1, 2, 1));
  EXPECT_TRUE(std::is_sorted(versions.begin(), versions.end()));
  request.set_run_id(12345);
  EXPECT_THAT(coordinator_->Watch(request, [](const auto&) {}),
              HasStatus(absl::StatusCode::kNotFound, HasSubstr("3039")));
}

TEST_F(CoordinatorMembers, TwoJobsDoNotMeet) {
  v1::JobSpec other = SyncJob(1);
  other.set_name("other");
  RunJob(SyncJob(1), {1});
  WEIR_ASSERT_OK(Join(2, other));
  EXPECT_NE(runs_["job"], runs_["other"]);
  WEIR_ASSERT_OK(Declare(2, OneVariable(10)));
  WEIR_ASSERT_OK(ReportInitialised(2));
  EXPECT_EQ(View("job").declaration().variables(0).shape(0), 1 << 20);
  EXPECT_EQ(View("other").declaration().variables(0).shape(0), 10);
  WEIR_ASSERT_OK(Leave(2, true));
  EXPECT_EQ(View("other").state(), v1::JOB_STATE_FINISHED);
  EXPECT_EQ(View("job").state(), v1::JOB_STATE_RUNNING);
}

TEST_F(CoordinatorMembers, AServerThatStopsIsDoneWithoutAtOnceAlsoAfterARestart) {
  RunJob(AsyncJob(1), {1});
  ASSERT_THAT(View().shard_map().servers(), SizeIs(2));
  v1::LeaveRequest farewell;
  farewell.set_worker(View().shard_map().servers(1).incarnation());
  WEIR_EXPECT_OK(Call(&Coordinator::Leave, farewell));
  EXPECT_EQ(View().attempt(), 2u);
  EXPECT_THAT(View().shard_map().servers(), SizeIs(1));
  WEIR_EXPECT_OK(Call(&Coordinator::Leave, farewell)) << "once more";
  EXPECT_EQ(View().attempt(), 2u);
  Boot();
  v1::StatusRequest ask;
  const auto status = Call(&Coordinator::Status, ask);
  WEIR_ASSERT_OK(status);
  int live = 0;
  for (const v1::ServerStatus& server : status->servers()) live += server.live() ? 1 : 0;
  EXPECT_EQ(live, 1);
}

TEST_F(CoordinatorMembers, AServerThatWasReplacedDoesNotEndItsSuccessor) {
  WEIR_ASSERT_OK(AddServer("server-0", 900));
  WEIR_ASSERT_OK(AddServer("server-0", 950));
  v1::LeaveRequest farewell;
  farewell.set_worker(900);
  EXPECT_THAT(Call(&Coordinator::Leave, farewell),
              HasStatus(absl::StatusCode::kNotFound, HasSubstr("server")));
  WEIR_EXPECT_OK(BeatServer(950));
}

TEST_F(CoordinatorMembers, ServerNameBelongsToTheNewestProcess) {
  WEIR_ASSERT_OK(AddServer("server-0", 900));
  WEIR_ASSERT_OK(AddServer("server-0", 950));
  EXPECT_THAT(BeatServer(900), HasStatus(absl::StatusCode::kAborted, HasSubstr("newer process")));
  EXPECT_THAT(AddServer("server-0", 900), HasStatus(kFailedPrecondition, HasSubstr("--name")));
  WEIR_EXPECT_OK(BeatServer(950));
  EXPECT_THAT(BeatServer(1), HasStatus(absl::StatusCode::kNotFound, HasSubstr("register")));
}

}  // namespace
}  // namespace weir
