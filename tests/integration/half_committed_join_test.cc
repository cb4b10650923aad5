// SPDX-License-Identifier: Apache-2.0
// A coordinator that dies between the two commits of a join, with true servers, on one thread.
#include "common/status_macros.h"
#include "tests/unit/coordinator/coordinator_fixture.h"
#include "tests/unit/server/server_fixture.h"

namespace weir {
namespace {

using ::testing::Each;
using ::testing::SizeIs;

constexpr uint64_t kElements = 128 << 10;  // two shards of 256 KiB, one for each server

class HalfCommittedJoin : public CoordinatorTest {
 protected:
  HalfCommittedJoin() {
    for (const uint64_t incarnation : {900, 901}) {
      cores_.push_back(std::make_unique<ParameterServer>(
          ParameterServer::Options{.name = absl::StrCat("server-", incarnation - 900),
                                   .incarnation = incarnation,
                                   .clock = &clock_,
                                   .executor = &executor_}));
    }
    servers_.prepare.answer = [&](const v1::ServerInfo& server,
                                  const v1::PrepareStepRequest& request) {
      return CoreOf(server).PrepareStep(request);
    };
    servers_.commit.answer =
        [&](const v1::ServerInfo& server,
            const v1::CommitStepRequest& request) -> absl::StatusOr<v1::CommitStepReply> {
      WEIR_RETURN_IF_ERROR(CoreOf(server).CommitStep(request));
      return v1::CommitStepReply();
    };
    servers_.abort.answer =
        [&](const v1::ServerInfo& server,
            const v1::AbortStepRequest& request) -> absl::StatusOr<v1::AbortStepReply> {
      WEIR_RETURN_IF_ERROR(CoreOf(server).AbortStep(request));
      return v1::AbortStepReply();
    };
    WatchForCores();
  }
  ~HalfCommittedJoin() override { coordinator_.reset(); }

  ParameterServer& CoreOf(const v1::ServerInfo& server) {
    return *cores_[server.incarnation() - 900];
  }
  void WatchForCores() {
    WEIR_ASSERT_OK(coordinator_->Watch({}, [this](const SharedWatchEvent& event) {
      if (!event->has_view()) return;
      for (const auto& core : cores_) WEIR_EXPECT_OK(core->ApplyView(event->view()));
    }));
    executor_.RunAll();
  }

  // Worker 1, alone, has done step 0 with every weight at 0.
  void Begin() {
    v1::JobSpec spec = SyncJob(2);
    spec.set_min_workers(1);
    spec.set_shard_bytes(256 << 10);
    spec_ = spec;
    v1::Declaration declaration = OneVariable(kElements);
    declaration.mutable_groups(0)->mutable_optimizer()->mutable_sgd()->set_momentum(0);
    declaration.mutable_groups(0)->mutable_optimizer()->mutable_learning_rate()->set_base(1);
    WEIR_ASSERT_OK(AddServer("server-0", 900));
    WEIR_ASSERT_OK(AddServer("server-1", 901));
    WEIR_ASSERT_OK(Join(1, spec));
    WEIR_ASSERT_OK(Declare(1, declaration));
    for (int server : {0, 1}) {
      v1::AssignRequest request;
      *request.mutable_context() = ContextOf(1, server);
      *request.add_segments() = SegmentOn(server);
      const Answer<v1::AssignReply> answer;
      cores_[server]->Assign(request, PayloadOf(Filled(kElements / 2, 0)), Soon(),
                             answer.Callback());
      WEIR_ASSERT_OK(answer.get());
    }
    WEIR_ASSERT_OK(ReportInitialised(1));
    WEIR_ASSERT_OK(Push(1, 0, 0).get());
    WEIR_ASSERT_OK(Push(1, 1, 0).get());
  }

  // The coordinator dies before it hears of server-0's commit, and before server-1 hears of any.
  void JoinAtServer0Alone() {
    const auto commit = servers_.commit.answer;
    servers_.commit.answer =
        [&](const v1::ServerInfo& server,
            const v1::CommitStepRequest& request) -> absl::StatusOr<v1::CommitStepReply> {
      if (server.name() == "server-0") return commit(server, request);
      coordinator_.reset();
      return absl::UnavailableError("never heard");
    };
    WEIR_ASSERT_OK(Join(2, spec_));
    ASSERT_EQ(coordinator_, nullptr);
    servers_.commit.answer = commit;
  }
  // Worker 1's pushes from `step` on until worker 2 is in step with it for three, each of which
  // counts once on both servers when both have pushed.
  void ExpectStepsFrom(uint64_t step) {
    const uint64_t first_step = View().members(1).first_step();
    for (; step < first_step + 3; ++step) {
      for (const int server : {0, 1}) {
        WEIR_ASSERT_OK(Push(1, server, step).get());
        if (step < first_step) continue;
        EXPECT_THAT(Weights(server), Each(-static_cast<float>(step)));
        WEIR_ASSERT_OK(Push(2, server, step, step - first_step + 1).get());
        EXPECT_THAT(Weights(server), Each(-static_cast<float>(step + 1)));
      }
    }
  }

  absl::Time Soon() const { return clock_.Now() + absl::Minutes(1); }
  v1::RequestContext ContextOf(uint64_t worker, int server) {
    v1::RequestContext context;
    if (coordinator_ != nullptr) view_ = View();  // else as it was known last
    context.set_run_id(view_.run_id());
    context.set_attempt(view_.attempt());
    context.set_generation(view_.generation());
    context.set_shard_map_version(view_.shard_map().version());
    context.set_worker(worker);
    context.set_server_incarnation(900 + server);
    return context;
  }
  v1::Segment SegmentOn(int server) {
    v1::Segment segment;
    for (int shard = 0; shard < view_.shard_map().server_of_shard_size(); ++shard) {
      if (view_.shard_map().server_of_shard(shard) == static_cast<uint32_t>(server)) {
        segment.set_shard(shard);
      }
    }
    segment.set_count(kElements / 2);
    return segment;
  }
  // The gradient is 1. A worker's first push has sequence 1.
  Answer<v1::PushReply> Push(uint64_t worker, int server, uint64_t step, uint64_t sequence = 0) {
    v1::PushRequest request;
    *request.mutable_context() = ContextOf(worker, server);
    *request.add_segments() = SegmentOn(server);
    request.set_group(1);
    request.set_sequence(sequence == 0 ? step + 1 : sequence);
    request.set_step(step);
    request.set_group_step(step);
    request.set_weight(1);
    request.set_examples(1);
    Answer<v1::PushReply> answer;
    cores_[server]->Push(request, PayloadOf(Filled(kElements / 2, 1)), Soon(), answer.Callback());
    return answer;
  }
  std::vector<float> Weights(int server) {
    v1::PullRequest request;
    *request.mutable_context() = ContextOf(0, server);
    *request.add_segments() = SegmentOn(server);
    const Answer<PullResult> answer;
    cores_[server]->Pull(request, Soon(), answer.Callback());
    EXPECT_THAT(answer.get(), IsOk());
    return answer.get().ok() ? ValuesOf<float>(answer.get()->payload) : std::vector<float>();
  }

  v1::JobSpec spec_;
  v1::JobView view_;
  std::vector<std::unique_ptr<ParameterServer>> cores_;
};

// It joins within the steps that worker 1 has done, so that it is in force at server-0 at once.
TEST_F(HalfCommittedJoin, HoldsNobodyUpAndCountsNobodyTwiceWhenTheCoordinatorIsBack) {
  Begin();
  JoinAtServer0Alone();
  // Server-0 counts the newcomer from step 2 on, and wants step 1 from who knows that; server-1
  // waits for the word, 2 s at most.
  EXPECT_TRUE(IsStaleView(Push(1, 0, 1).get().status()));
  const auto held = Push(1, 1, 1);
  EXPECT_FALSE(held.has_come());
  executor_.Advance(absl::Seconds(3));
  WEIR_ASSERT_OK(held.get());

  Boot();
  // A worker that hears of the next view before server-0 has the newer one of the two: it waits for
  // server-0, and does not look for one that is newer still.
  EXPECT_THAT(Push(1, 0, 1).get(),
              HasStatus(absl::StatusCode::kUnavailable, HasSubstr("generation")));
  WatchForCores();
  ASSERT_THAT(View().members(), SizeIs(1));
  WEIR_ASSERT_OK(Push(1, 0, 1).get());
  for (const int server : {0, 1}) {
    WEIR_ASSERT_OK(Push(1, server, 2).get());
    EXPECT_THAT(Weights(server), Each(-3)) << "nobody waits for the newcomer";
  }

  WEIR_ASSERT_OK(Beat(1, 2));
  Pass(absl::Seconds(1), {1, 2}, {900, 901});
  ASSERT_THAT(View().members(), SizeIs(2));
  ExpectStepsFrom(3);
}

// It joins at a step that is to come, and is only agreed on at server-0.
TEST_F(HalfCommittedJoin, ThatIsStillToComeGivesWayToTheJoinOfTheNextCoordinator) {
  Begin();
  WEIR_ASSERT_OK(Beat(1, 2));
  JoinAtServer0Alone();
  Boot();
  WatchForCores();
  Pass(absl::Seconds(1), {1, 2}, {900, 901});
  ASSERT_THAT(View().members(), SizeIs(2)) << "although no step has been done meanwhile";
  ExpectStepsFrom(1);
}

}  // namespace
}  // namespace weir
