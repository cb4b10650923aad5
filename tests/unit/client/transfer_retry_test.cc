// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "client/transfer_engine.h"
#include "rpc/errors.h"
#include "tests/support/unreliable_endpoint.h"
#include "tests/unit/client/engine_fixture.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using Values = std::vector<std::vector<float>>;

class TransferRetry : public EngineFixture {
 protected:
  void StartOverOne(uint64_t elements = 1) {
    AddServer("ps-0", 100);
    view_.declaration = SgdOver({elements});
    gradient_.assign(elements, 1);
    Start();
  }
  std::shared_ptr<Result> PushOne(absl::Duration timeout = absl::Seconds(10)) {
    return Push({PushItem{0, gradient_.data(), gradient_.size() * 4}}, {}, timeout);
  }
  float Weight() {
    Values weights;
    WEIR_EXPECT_OK(**Pull(weights));
    return weights[0][0];
  }

  std::vector<float> gradient_;
};

TEST_F(TransferRetry, OutageIsRetriedWithTheSameSequence) {
  StartOverOne();
  server("ps-0").FailNext(absl::UnavailableError("connection refused"));
  server("ps-0").FailNext(absl::ResourceExhaustedError("slow down"));
  const auto pushed = PushOne();
  EXPECT_FALSE(pushed->has_value());
  executor_.Advance(absl::Seconds(1));
  WEIR_ASSERT_OK(**pushed);
  ASSERT_THAT(server("ps-0").seen(), SizeIs(3));
  for (const auto& seen : server("ps-0").seen()) EXPECT_EQ(seen.push.sequence(), 1u);
}

TEST_F(TransferRetry, LostAnswerDoesNotCountThePushTwice) {
  StartOverOne();
  server("ps-0").LoseNextAnswer(absl::UnavailableError("connection reset"));
  const auto pushed = PushOne();
  executor_.Advance(absl::Seconds(1));
  WEIR_ASSERT_OK(**pushed);
  EXPECT_EQ(Weight(), -1);
}

TEST_F(TransferRetry, StaleViewIsSentAgainUnderTheNextView) {
  StartOverOne();
  server("ps-0").FailNext(StaleView("generation", 1, 2));
  const auto pushed = PushOne();
  EXPECT_FALSE(pushed->has_value());
  view_.generation = 2;
  NextView();
  WEIR_ASSERT_OK(**pushed);
  ASSERT_THAT(server("ps-0").seen(), SizeIs(2));
  EXPECT_EQ(server("ps-0").seen()[1].push.context().generation(), 2u);
  EXPECT_EQ(server("ps-0").seen()[1].push.sequence(), 1u);
}

TEST_F(TransferRetry, RolledBackAttemptEndsWithAborted) {
  StartOverOne();
  EXPECT_FALSE(engine_->IsOver(1));
  server("ps-0").FailNext(StaleAttempt(1, 2));
  EXPECT_TRUE(IsStaleAttempt((*PushOne())->status()));
  EXPECT_TRUE(engine_->IsOver(1));
  EXPECT_TRUE(IsStaleAttempt((*PushOne())->status()));  // the next view is still to come
}

TEST_F(TransferRetry, WorkerThatIsNoMemberIsTold) {
  StartOverOne();
  server("ps-0").FailNext(NotAMember(WorkerId{5}, "its lease ended"));
  EXPECT_TRUE(IsNotAMember((*PushOne())->status()));
}

TEST_F(TransferRetry, ViewOfANewAttemptEndsWhatIsUnderWay) {
  StartOverOne();
  server("ps-0").FailNext(absl::UnavailableError("gone"));
  const auto pushed = PushOne();
  view_.attempt = 2;
  NextView();
  ASSERT_TRUE(pushed->has_value());
  EXPECT_TRUE(IsStaleAttempt((*pushed)->status()));
}

TEST_F(TransferRetry, RestartedServerIsWaitedForUntilTheViewComes) {
  StartOverOne();
  servers_["ps-0"] =
      std::make_shared<ScriptedServer>(200);  // a new life that the view does not know
  const auto pushed = PushOne();
  executor_.Advance(absl::Seconds(3));
  EXPECT_FALSE(pushed->has_value());
  EXPECT_THAT(server("ps-0").seen(), SizeIs(0));
  view_.attempt = 2;
  view_.servers = {ServerNamed("ps-0", 200)};
  NextView();
  EXPECT_TRUE(IsStaleAttempt((*pushed)->status()));
  engine_->Adopt(2);
  WEIR_EXPECT_OK(**PushOne());
  EXPECT_EQ(server("ps-0").seen()[0].push.sequence(), 1u);
}

TEST_F(TransferRetry, DeadlineNamesTheServerAndItsLastAnswer) {
  StartOverOne();
  for (int i = 0; i < 100; ++i) server("ps-0").FailNext(NotInitialised("v0", "worker 3"));
  const auto pushed = PushOne(absl::Seconds(5));
  executor_.Advance(absl::Seconds(6));
  ASSERT_TRUE(pushed->has_value());
  EXPECT_THAT((*pushed)->status(),
              HasStatus(absl::StatusCode::kDeadlineExceeded,
                        AllOf(HasSubstr("push of group 1"), HasSubstr("5s"),
                              HasSubstr("server ps-0 (ps-0:1)"), HasSubstr("worker 3"))));
}

// Backoff ends at a second, so that each second has its failure.
TEST_F(TransferRetry, AServerThatFailsForTenSecondsIsToldThenEveryThirtyAndThatItIsBack) {
  StartOverOne();
  for (int i = 0; i < 55; ++i) server("ps-0").FailNext(absl::UnavailableError("refused"));
  const auto pushed = PushOne(absl::Minutes(10));
  executor_.Advance(absl::Seconds(9));
  EXPECT_THAT(warnings_, SizeIs(0));
  executor_.Advance(absl::Seconds(4));
  ASSERT_THAT(warnings_, SizeIs(1));
  EXPECT_THAT(warnings_[0], AllOf(HasSubstr("server ps-0 (ps-0:1): every call has failed for 1"),
                                  HasSubstr(" s: refused; gives up in 9:4")));
  executor_.Advance(absl::Seconds(32));
  ASSERT_THAT(warnings_, SizeIs(2));
  executor_.Advance(absl::Seconds(20));
  WEIR_ASSERT_OK(**pushed);
  ASSERT_THAT(warnings_, SizeIs(3));
  EXPECT_THAT(warnings_[2], HasSubstr("server ps-0 (ps-0:1): answers again after "));
}

TEST_F(TransferRetry, AServerThatCannotBeGreetedIsTold) {
  StartOverOne();
  servers_["ps-0"] = std::make_shared<ScriptedServer>(200);  // another life: not the view's
  const auto pushed = PushOne(absl::Seconds(30));
  executor_.Advance(absl::Seconds(13));
  ASSERT_THAT(warnings_, SizeIs(1));
  EXPECT_THAT(warnings_[0], HasSubstr("server ps-0 (ps-0:1): every call has failed for 1"));
}

// As in a step that waits for a slow worker.
TEST_F(TransferRetry, AServerThatHoldsACallBackIsNotCalledFailing) {
  StartOverOne();
  for (int i = 0; i < 100; ++i) server("ps-0").FailNext(absl::DeadlineExceededError("parked"));
  const auto pushed = PushOne(absl::Minutes(1));
  executor_.Advance(absl::Seconds(50));
  EXPECT_FALSE(pushed->has_value());
  EXPECT_THAT(warnings_, SizeIs(0));
}

TEST_F(TransferRetry, MemoryStaysTheCallersUntilTheServerHasLetGo) {
  StartOverOne();
  server("ps-0").Park();
  const auto pushed = PushOne(absl::Seconds(5));
  executor_.Advance(absl::Seconds(6));
  EXPECT_FALSE(pushed->has_value());  // the payload is still held
  server("ps-0").Release();
  EXPECT_EQ((*pushed)->status().code(), absl::StatusCode::kDeadlineExceeded);
}

// The first pull's message keeps its turn, and so the credit, while it waits to be sent again.
TEST_F(TransferRetry, WhatAPullThatFailsGivesBackIsTheNextOnesAtOnce) {
  AddServer("ps-0", 100, /*credit_bytes=*/256, /*payload_bytes=*/256);
  view_.declaration = SgdOver({64, 64});
  Start();
  server("ps-0").FailNext(absl::UnavailableError("gone"));
  Values first;
  Values second;
  const auto failed = Pull(first, absl::Milliseconds(1));
  const auto pulled = Pull(second);
  executor_.Advance(absl::Milliseconds(1));
  ASSERT_TRUE(failed->has_value());
  EXPECT_EQ((*failed)->status().code(), absl::StatusCode::kDeadlineExceeded);
  ASSERT_TRUE(pulled->has_value());
  WEIR_EXPECT_OK(**pulled);
}

TEST_F(TransferRetry, AfterAnUnknownOutcomeTheGroupIsClosedUntilTheNextAttempt) {
  StartOverOne();
  for (int i = 0; i < 100; ++i) server("ps-0").FailNext(absl::UnavailableError("gone"));
  const auto pushed = PushOne(absl::Seconds(5));
  executor_.Advance(absl::Seconds(6));
  EXPECT_FALSE((*pushed)->ok());
  EXPECT_THAT((*PushOne())->status(),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("unknown")));
}

TEST_F(TransferRetry, ServersAnswerIsNamedWhereItEndsTheCall) {
  StartOverOne();
  server("ps-0").FailNext(absl::FailedPreconditionError("out of order"));
  EXPECT_THAT((*PushOne())->status(),
              HasStatus(absl::StatusCode::kFailedPrecondition,
                        AllOf(HasSubstr("server ps-0"), HasSubstr("out of order"))));
}

TEST_F(TransferRetry, FinishedJobEndsEveryCall) {
  StartOverOne();
  server("ps-0").FailNext(absl::UnavailableError("gone"));
  const auto pushed = PushOne();
  view_.state = v1::JOB_STATE_FINISHED;
  NextView();
  EXPECT_THAT((*pushed)->status(),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("finished")));
}

TEST_F(TransferRetry, ShutdownEndsWhatIsUnderWay) {
  StartOverOne();
  server("ps-0").FailNext(absl::UnavailableError("gone"));
  const auto pushed = PushOne();
  engine_->Shutdown();
  EXPECT_EQ((*pushed)->status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ((*PushOne())->status().code(), absl::StatusCode::kCancelled);
}

// Requests and answers lost, doubled and delayed: 200 pushes of one, each counted once.
TEST_F(TransferRetry, EveryPushCountsOnceOverABadNetwork) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    ScriptedServer target(100);
    auto network = std::make_shared<UnreliableEndpoint>(
        target, executor_,
        UnreliableEndpoint::Options{.lose_request = 0.2,
                                    .lose_answer = 0.2,
                                    .duplicate = 0.2,
                                    .delay = 0.5,
                                    .max_delay = absl::Milliseconds(50),
                                    .seed = seed});
    HandMadeView view;
    view.declaration = SgdOver({3000});
    view.chunk_bytes = 256;
    view.workers = {5};
    view.servers = {ServerNamed("ps-0", 100)};
    TransferEngine::Options options;
    options.worker = WorkerId{5};
    options.clock = &clock_;
    options.executor = &executor_;
    options.seed = seed;
    options.connect = [network](const v1::ServerInfo&) {
      return std::shared_ptr<ParameterEndpoint>(network);
    };
    engine_ = TransferEngine::Create(std::move(options));
    WEIR_ASSERT_OK(engine_->OnView(view.MakeShared()));
    engine_->Adopt(1);
    const std::vector<float> gradient(3000, 1);
    for (int i = 0; i < 200; ++i) {
      const auto pushed =
          Push({PushItem{0, gradient.data(), gradient.size() * 4}}, {}, absl::Minutes(10));
      executor_.Advance(absl::Minutes(1));
      ASSERT_TRUE(pushed->has_value());
      WEIR_ASSERT_OK(**pushed);
    }
    view_.declaration = view.declaration;
    Values weights;
    const auto pulled = Pull(weights, absl::Minutes(10));
    executor_.Advance(absl::Minutes(1));
    WEIR_ASSERT_OK(**pulled);
    EXPECT_THAT(weights[0], Each(-200));
    engine_->Shutdown();
    executor_.Advance(absl::Minutes(1));
  }
}

}  // namespace
}  // namespace weir
