// SPDX-License-Identifier: Apache-2.0
// Jobs come and go: views, attempts, memory, drain.
#include <thread>

#include "tests/unit/server/workers_fixture.h"

namespace weir {
namespace {

class ParameterServerTest : public WorkersFixture {
 protected:
  void SetUp() override {
    view.AddVariable("w", 100).AddMember(kAnn).AddMember(kBob);
    MakeServer();
  }
};

TEST_F(ParameterServerTest, TwoRunsWithEqualNamesDoNotMeet) {
  ViewMaker other = view;
  other.edit().set_run_id(8);
  StartJob(view);
  StartJob(other);
  WEIR_ASSERT_OK(Push(ann.Push(ann.SegmentsOf(0), 1), Filled(100, 1)).get());
  EXPECT_EQ(Weights(view, 0), Filled(100, -1));
  EXPECT_EQ(Weights(other, 0), Filled(100, 0));
}

TEST_F(ParameterServerTest, AnUnknownRunIsNotYetKnownAndAnEndedOneIsNotFound) {
  EXPECT_THAT(Pull(ann.Pull(ann.SegmentsOf(0))).get(),
              HasStatus(absl::StatusCode::kUnavailable, HasSubstr("0000000000000007")));
  StartJob(view);
  server->KeepOnly({});
  EXPECT_THAT(Pull(ann.Pull(ann.SegmentsOf(0))).get(),
              HasStatus(absl::StatusCode::kNotFound, HasSubstr("0000000000000007")));
}

TEST_F(ParameterServerTest, AFinishedJobsMemoryIsGone) {
  StartJob(view);
  EXPECT_GT(server->Report().memory_bytes(), 0u);
  view.edit().set_state(v1::JOB_STATE_FINISHED);
  WEIR_ASSERT_OK(server->ApplyView(view.NextVersion().Make()));
  executor.Advance(absl::Seconds(11));
  EXPECT_EQ(server->memory_bytes(), 0u);
  EXPECT_EQ(server->Report().memory_bytes(), 0u);
}

TEST_F(ParameterServerTest, AFinishedJobEndsWhatWaits) {
  view.Sync();
  StartJob(view);
  const auto parked = PushPull(ann.Push(ann.SegmentsOf(0), 1), Filled(100, 1));
  view.edit().set_state(v1::JOB_STATE_FINISHED);
  WEIR_ASSERT_OK(server->ApplyView(view.NextVersion().Make()));
  EXPECT_THAT(parked.get(),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("finished")));
}

TEST_F(ParameterServerTest, ANewAttemptStartsEmptyAndEndsTheOldOne) {
  view.Sync();
  StartJob(view);
  const auto parked = PushPull(ann.Push(ann.SegmentsOf(0), 1), Filled(100, 1));
  const v1::PullRequest old = ann.Pull(ann.SegmentsOf(0));
  view.edit().set_attempt(2);
  view.edit().set_state(v1::JOB_STATE_INITIALISING);
  WEIR_ASSERT_OK(server->ApplyView(view.NextVersion().Make()));
  EXPECT_TRUE(IsStaleAttempt(parked.get().status()));
  EXPECT_TRUE(IsStaleAttempt(Pull(old).get().status()));
  EXPECT_TRUE(IsNotInitialised(Pull(ann.Pull(ann.SegmentsOf(0))).get().status()));
}

TEST_F(ParameterServerTest, ARolledBackAttemptIsGoneEvenWhereNoServerIsChosenYet) {
  StartJob(view);
  v1::JobView rolled_back = view.NextVersion().Make();
  rolled_back.set_attempt(2);
  rolled_back.clear_shard_map();
  rolled_back.set_state(v1::JOB_STATE_WAITING);
  WEIR_ASSERT_OK(server->ApplyView(rolled_back));
  EXPECT_THAT(Pull(ann.Pull(ann.SegmentsOf(0))).get(),
              HasStatus(absl::StatusCode::kUnavailable, HasSubstr("no variables")));
}

TEST_F(ParameterServerTest, OlderViewsAreIgnored) {
  StartJob(view);
  ViewMaker older = view;
  WEIR_ASSERT_OK(server->ApplyView(view.NextGeneration().Make()));
  WEIR_ASSERT_OK(server->ApplyView(older.Make()));
  WEIR_ASSERT_OK(Push(ann.Push(ann.SegmentsOf(0), 1), Filled(100, 1)).get());
}

TEST_F(ParameterServerTest, WhoeverBringsAViewSecondFindsItsStoreMade) {
  ViewMaker large = view;
  large.edit().mutable_declaration()->mutable_variables(0)->set_shape(0, 1 << 20);
  for (uint64_t attempt = 1; attempt <= 5; ++attempt) {
    large.edit().set_attempt(attempt);
    const v1::JobView next = large.NextVersion().Make();
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        EXPECT_THAT(server->ApplyView(next), IsOk());
        const auto store = server->Store(kRun);
        ASSERT_THAT(store, IsOk());
        EXPECT_EQ((*store)->attempt(), attempt);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST_F(ParameterServerTest, AViewOfAJobWithoutVariablesIsTakenAsOftenAsItComes) {
  const v1::JobView empty = ViewMaker().view();
  WEIR_EXPECT_OK(server->ApplyView(empty));
  WEIR_EXPECT_OK(server->ApplyView(empty));
}

TEST_F(ParameterServerTest, AViewOfALowerTermIsRefused) {
  view.edit().set_term(3);
  StartJob(view);
  view.edit().set_term(2);
  EXPECT_THAT(server->ApplyView(view.NextVersion().Make()),
              HasStatus(absl::StatusCode::kAborted, HasSubstr("term 3")));
}

TEST_F(ParameterServerTest, RequestsWithAnOlderOrNewerViewSayWhich) {
  view.edit().set_attempt(5);
  view.edit().set_generation(5);
  view.edit().mutable_shard_map()->set_version(5);
  StartJob(view);
  const auto status = [&](auto change) {
    v1::PushRequest request = ann.Push(ann.SegmentsOf(0), 1);
    change(*request.mutable_context());
    return Push(request, Filled(100, 1)).get().status();
  };
  EXPECT_TRUE(IsStaleAttempt(status([](v1::RequestContext& c) { c.set_attempt(4); })));
  EXPECT_TRUE(IsStaleView(status([](v1::RequestContext& c) { c.set_generation(4); })));
  EXPECT_TRUE(IsStaleView(status([](v1::RequestContext& c) { c.set_shard_map_version(4); })));
  EXPECT_TRUE(
      IsStaleIncarnation(status([](v1::RequestContext& c) { c.set_server_incarnation(1); })));
  EXPECT_TRUE(IsNotAMember(status([](v1::RequestContext& c) { c.set_worker(1); })));
  for (const auto newer : {0, 1, 2}) {
    EXPECT_EQ(status([&](v1::RequestContext& c) {
                if (newer == 0) c.set_attempt(6);
                if (newer == 1) c.set_generation(6);
                if (newer == 2) c.set_shard_map_version(6);
              }).code(),
              absl::StatusCode::kUnavailable);
  }
  EXPECT_EQ(status([](v1::RequestContext& c) {
              c.set_worker(1);
              c.set_generation(6);
            }).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(Weights(view, 0), Filled(100, 0));
  WEIR_ASSERT_OK(Push(ann.Push(ann.SegmentsOf(0), 1), Filled(100, 1)).get());
}

TEST_F(ParameterServerTest, UninitialisedWeightsAreNeverServed) {
  WEIR_ASSERT_OK(server->ApplyView(view.Make()));
  const auto pulled = Pull(bob.Pull(bob.SegmentsOf(0)));
  EXPECT_TRUE(IsNotInitialised(pulled.get().status()));
  EXPECT_THAT(pulled.get(), HasStatus(absl::StatusCode::kUnavailable, HasSubstr("rank 0 (worker")));
  EXPECT_TRUE(
      IsNotInitialised(Push(bob.Push(bob.SegmentsOf(0), 1), Filled(100, 1)).get().status()));
}

TEST_F(ParameterServerTest, OnlyTheInitialiserAssigns) {
  WEIR_ASSERT_OK(server->ApplyView(view.Make()));
  EXPECT_THAT(Assign(bob.Assign(bob.SegmentsOf(0)), PayloadOf(Filled(100, 1))),
              HasStatus(absl::StatusCode::kAborted, HasSubstr("000000000000000b")));
  WEIR_ASSERT_OK(Assign(ann.Assign(ann.SegmentsOf(0)), PayloadOf(Filled(100, 1))));
  WEIR_ASSERT_OK(Assign(ann.Assign(ann.SegmentsOf(0)), PayloadOf(Filled(100, 1))));
  EXPECT_EQ(Weights(view, 0), Filled(100, 1));
}

TEST_F(ParameterServerTest, ALateAssignDoesNotUndoAPush) {
  // This server has not heard yet that the job runs.
  WEIR_ASSERT_OK(server->ApplyView(view.Make()));
  WEIR_ASSERT_OK(Assign(ann.Assign(ann.SegmentsOf(0)), PayloadOf(Filled(100, 1))));
  WEIR_ASSERT_OK(Push(ann.Push(ann.SegmentsOf(0), 1), Filled(100, 3)).get());
  WEIR_ASSERT_OK(Assign(ann.Assign(ann.SegmentsOf(0)), PayloadOf(Filled(100, 1))));
  EXPECT_EQ(Weights(view, 0), Filled(100, -2));
}

// It has left while its first chunk was written.
TEST_F(ParameterServerTest, AFormerInitialiserDoesNotUndoItsSuccessorsValues) {
  std::function<void()> interrupt;
  server = std::make_unique<ParameterServer>(ParameterServer::Options{.name = "weir-server-0",
                                                                      .incarnation = kServer,
                                                                      .clock = &clock,
                                                                      .executor = &executor,
                                                                      .has_memory = [&](size_t) {
                                                                        if (interrupt)
                                                                          std::exchange(interrupt,
                                                                                        nullptr)();
                                                                        return true;
                                                                      }});
  WEIR_ASSERT_OK(server->ApplyView(view.Make()));
  const v1::AssignRequest former = ann.Assign(ann.SegmentsOf(0));
  interrupt = [&] {
    view.RemoveMember(kAnn).edit().set_initialiser(kBob);
    WEIR_ASSERT_OK(server->ApplyView(view.NextGeneration().Make()));
    WEIR_ASSERT_OK(Assign(bob.Assign(bob.SegmentsOf(0)), PayloadOf(Filled(100, 2))));
  };
  (void)Assign(former, PayloadOf(Filled(100, 1)));
  EXPECT_EQ(Weights(view, 0), Filled(100, 2));
}

TEST_F(ParameterServerTest, AJobThatDoesNotFitIsRefusedWithTheNumbers) {
  MakeServer(/*memory_limit_bytes=*/1000);
  // Adam in sync: weights, 2 slots, 1 accumulator: 4 * 400 = 1600.
  view.Sync();
  view.optimizer().mutable_adam()->set_eps(1e-8);
  EXPECT_THAT(server->ApplyView(view.Make()),
              HasStatus(absl::StatusCode::kResourceExhausted, HasSubstr("1600")));
  EXPECT_THAT(Pull(ann.Pull(ann.SegmentsOf(0))).get(),
              HasStatus(absl::StatusCode::kResourceExhausted, HasSubstr("1600")));
}

TEST_F(ParameterServerTest, AnEndedJobMakesRoomForTheNext) {
  MakeServer(/*memory_limit_bytes=*/500);
  StartJob(view);
  ViewMaker next = view;
  next.edit().set_run_id(8);
  next.edit().set_state(v1::JOB_STATE_INITIALISING);
  EXPECT_THAT(server->ApplyView(next.Make()),
              HasStatus(absl::StatusCode::kResourceExhausted, HasSubstr("400 of 500")));
  view.edit().set_state(v1::JOB_STATE_FINISHED);
  WEIR_ASSERT_OK(server->ApplyView(view.NextVersion().Make()));
  WEIR_ASSERT_OK(server->ApplyView(next.NextVersion().Make()));
}

TEST_F(ParameterServerTest, DrainWaitsForParkedPushesAndTakesNoNewJobs) {
  view.Sync();
  StartJob(view);
  const auto parked = PushPull(ann.Push(ann.SegmentsOf(0), 1), Filled(100, 1));
  bool drained = false;
  server->Drain([&] { drained = true; });
  EXPECT_FALSE(drained);
  ViewMaker next = view;
  next.edit().set_run_id(8);
  EXPECT_THAT(server->ApplyView(next.Make()),
              HasStatus(absl::StatusCode::kUnavailable, HasSubstr("shutting down")));
  WEIR_ASSERT_OK(Push(bob.Push(bob.SegmentsOf(0), 1), Filled(100, 1)).get());
  WEIR_ASSERT_OK(parked.get());
  EXPECT_TRUE(drained);
}

TEST_F(ParameterServerTest, StoppingEndsWhatWaitsAndADrainThatWaitsForIt) {
  view.Sync();
  StartJob(view);
  const auto parked = PushPull(ann.Push(ann.SegmentsOf(0), 1), Filled(100, 1));
  bool drained = false;
  server->Drain([&] { drained = true; });
  server->Stop();
  EXPECT_THAT(parked.get(), HasStatus(absl::StatusCode::kUnavailable, HasSubstr("shutting down")));
  EXPECT_TRUE(drained);
  EXPECT_THAT(server->ApplyView(view.NextGeneration().Make()),
              HasStatus(absl::StatusCode::kUnavailable, HasSubstr("shutting down")));
}

TEST_F(ParameterServerTest, DestructionEndsWhatWaits) {
  view.Sync();
  StartJob(view);
  const auto parked = PushPull(ann.Push(ann.SegmentsOf(0), 1), Filled(100, 1));
  server.reset();
  EXPECT_THAT(parked.get(), HasStatus(absl::StatusCode::kUnavailable, ::testing::_));
}

TEST_F(ParameterServerTest, WeightsThatWereSentOutliveTheServer) {
  StartJob(view);
  const auto pulled = Pull(ann.Pull(ann.SegmentsOf(0)));
  server.reset();
  EXPECT_EQ(ValuesOf<float>(pulled.get()->payload), Filled(100, 0));
}

TEST_F(ParameterServerTest, HelloAgreesOnTheProtocolAndGrantsCredit) {
  v1::HelloRequest request;
  request.set_protocol_min(1);
  request.set_protocol_max(3);
  Answer<v1::HelloReply> answer;
  server->Hello(request, Soon(), answer.Callback());
  WEIR_ASSERT_OK(answer.get());
  EXPECT_EQ(answer.get()->protocol(), 1u);
  EXPECT_EQ(answer.get()->server_incarnation(), kServer);
  EXPECT_EQ(answer.get()->credit_bytes(), 8u << 20);
  request.set_protocol_min(2);
  request.set_build("weir 9.0");
  Answer<v1::HelloReply> refused;
  server->Hello(request, Soon(), refused.Callback());
  EXPECT_THAT(refused.get(),
              HasStatus(absl::StatusCode::kFailedPrecondition,
                        ::testing::AllOf(HasSubstr("weir 9.0"), HasSubstr("2 to 3"))));
}

TEST_F(ParameterServerTest, ViewsThatContradictThemselvesAreRefused) {
  const auto refused = [&](auto change) {
    v1::JobView bad = view.Make();
    change(bad);
    MakeServer();
    return server->ApplyView(bad).code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused([](v1::JobView& v) { v.mutable_shard_map()->add_server_of_shard(0); }));
  EXPECT_TRUE(refused([](v1::JobView& v) { v.mutable_shard_map()->set_server_of_shard(0, 9); }));
  EXPECT_TRUE(refused([](v1::JobView& v) { v.mutable_shard_map()->set_chunk_bytes(0); }));
  EXPECT_TRUE(refused([](v1::JobView& v) { v.mutable_shard_map()->set_shard_bytes(1); }));
  EXPECT_TRUE(refused([](v1::JobView& v) { v.mutable_shard_map()->set_shard_bytes(UINT64_MAX); }));
  EXPECT_TRUE(
      refused([](v1::JobView& v) { v.mutable_declaration()->mutable_variables(0)->set_group(7); }));
  EXPECT_TRUE(refused([](v1::JobView& v) {
    v.mutable_declaration()->mutable_variables(0)->set_dtype(v1::DTYPE_UNSPECIFIED);
  }));
  EXPECT_TRUE(refused([](v1::JobView& v) {
    v.mutable_declaration()->mutable_variables(0)->set_dtype(v1::DTYPE_I64);
  }));
  EXPECT_TRUE(refused([](v1::JobView& v) {
    v.mutable_declaration()->mutable_variables(0)->set_shape(0, UINT64_MAX);
    v.mutable_declaration()->mutable_variables(0)->add_shape(UINT64_MAX);
  }));
}

// Two shards of 2^63 bytes are as many as the map has, but where the second one ends is beyond 64
// bits.
TEST_F(ParameterServerTest, ALayoutThatCannotBeMadeIsRefusedAndNothingElseChanges) {
  StartJob(view);
  WEIR_ASSERT_OK(Push(ann.Push(ann.SegmentsOf(0), 1), Filled(100, 1)).get());
  const uint64_t memory_bytes = server->memory_bytes();
  ViewMaker other = view;
  other.edit().set_run_id(8);
  v1::JobView bad = other.Make();
  v1::Variable& variable = *bad.mutable_declaration()->mutable_variables(0);
  variable.set_group(0);
  variable.set_dtype(v1::DTYPE_BOOL);
  variable.set_shape(0, UINT64_MAX);
  bad.mutable_shard_map()->set_chunk_bytes(uint64_t{1} << 63);
  bad.mutable_shard_map()->set_shard_bytes(uint64_t{1} << 63);
  ASSERT_EQ(bad.shard_map().server_of_shard_size(), 2);
  EXPECT_THAT(server->ApplyView(bad),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("9223372036854775808")));
  EXPECT_EQ(server->memory_bytes(), memory_bytes);
  EXPECT_EQ(Weights(view, 0), Filled(100, -1));
  StartJob(other.NextVersion());
  EXPECT_EQ(Weights(other, 0), Filled(100, 0));
}

}  // namespace
}  // namespace weir
