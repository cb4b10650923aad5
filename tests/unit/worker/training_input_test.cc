// SPDX-License-Identifier: Apache-2.0
// What a run's steps are taken on: waits for it, its end, its failures.
#include <cmath>

#include "common/status_macros.h"
#include "tests/unit/worker/training_fixture.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

class TrainingInput : public TrainingFixture {};

// The second step has no batch any more.
void EndAtSecondTake(CountedInput& input) {
  input.before = [take = 0](const InputRequest&) mutable {
    return ++take < 2 ? absl::OkStatus()
                      : absl::OutOfRangeError("input pipeline 0, replica 0: the source has ended");
  };
}

TEST_F(TrainingInput, AWorkerWhoseSourceHasEndedLeavesAndTheOthersGoOn) {
  session_.info.members = {{0, 0}, {1, 0}};
  EndAtSecondTake(input_);
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  EXPECT_FALSE(summary.lead);
  EXPECT_EQ(client_.pushes.size(), 1u);
  EXPECT_THAT(calls_, AllOf(Not(Contains("barrier end")), Not(Contains("save"))));
  EXPECT_EQ(calls_.back(), "leave to others: input pipeline 0, replica 0: the source has ended");
}

// Who seems to be there as the source ends may be leaving too.
TEST_F(TrainingInput, WhoCannotLeaveToOthersEndsTheJobThoughItsViewStillHadThem) {
  session_.info.members = {{0, 0}, {1, 0}};
  EndAtSecondTake(input_);
  session_.others_leave_too = true;
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  EXPECT_TRUE(summary.lead);
  EXPECT_EQ(summary.checkpoint, "checkpoint-1");
  EXPECT_EQ(calls_.back(), "leave finished");
}

TEST_F(TrainingInput, WhereNobodyElseIsLeftTheJobEndsWithItsInput) {
  EndAtSecondTake(input_);
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  EXPECT_TRUE(summary.lead);
  EXPECT_EQ(summary.steps, 1u);
  EXPECT_EQ(summary.examples, 8u);
  EXPECT_EQ(summary.checkpoint, "checkpoint-1");
  EXPECT_EQ(calls_.back(), "leave finished");
}

TEST_F(TrainingInput, AnInputThatFailsEndsTheWorkerWithItsMessage) {
  input_.before = [](const InputRequest&) {
    return absl::InternalError("input pipeline 0, replica 0: out of memory");
  };
  EXPECT_THAT(Run().status(),
              HasStatus(absl::StatusCode::kInternal, "input pipeline 0, replica 0: out of memory"));
  EXPECT_EQ(calls_.back(), "leave input pipeline 0, replica 0: out of memory");
}

TEST_F(TrainingInput, AWaitForInputEndsWithAStopAnInterruptionAndARollback) {
  spec_.mutable_regime()->set_kind(v1::REGIME_ASYNC);
  session_.ranges = {{0, 0, 20}};
  const auto waits_until = [&](std::function<void()> event) {
    return [event](const InputRequest& request) {
      WEIR_RETURN_IF_ERROR(request.go_on());
      event();
      return request.go_on();
    };
  };
  input_.before = waits_until([&] { session_.info.attempt = 1; });
  session_.no_other_attempt = [&](absl::Duration) {
    input_.before = waits_until([&] { session_.info.stop = true; });
    session_.ranges = {{0, 0, 20}};
    return absl::OkStatus();
  };
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  EXPECT_TRUE(summary.stopped);
  EXPECT_EQ(session_.info.attempt, 1u);
  session_.info.stop = false;
  input_.before = waits_until([&] { interrupted_ = true; });
  session_.ranges = {{0, 0, 20}};
  EXPECT_THAT(Run().status(), HasStatus(absl::StatusCode::kCancelled, "interrupted"));
}

// The others are in step 5 already, or are waited for by nobody: this worker will never get there.
TEST_F(TrainingInput, AStoppedSyncJobIsLeftTwoSecondsLaterWhereNoBatchComes) {
  std::vector<absl::Duration> asked;
  input_.before = [&](const InputRequest& request) {
    session_.info.stop = true;
    session_.info.stop_step = 5;
    const absl::Time began = clock_.Now();
    absl::Status status = request.go_on();
    while (status.ok() && clock_.Now() < began + absl::Minutes(1)) {
      clock_.SetNow(clock_.Now() + absl::Milliseconds(250));
      status = request.go_on();
    }
    asked.push_back(clock_.Now() - began);
    return status;
  };
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  EXPECT_TRUE(summary.stopped);
  EXPECT_THAT(asked, ElementsAre(absl::Seconds(2)));
  EXPECT_EQ(calls_.back(), "leave finished");
}

TEST_F(TrainingInput, AnInputKnowsItsStepsPlaceAndTheNextOnes) {
  session_.info.rank = 1;
  session_.info.members = {{1, 0}};
  input_.steps_ahead = 5;
  std::vector<std::vector<uint64_t>> seen;
  input_.before = [&](const InputRequest& request) {
    seen.push_back({request.first_replica, request.slice.first});
    for (const BatchSlice& slice : request.upcoming) seen.back().push_back(slice.first);
    return absl::OkStatus();
  };
  WEIR_ASSERT_OK(Run());
  EXPECT_THAT(seen,
              ElementsAre(ElementsAre(1, 0, 8, 16), ElementsAre(1, 8, 16), ElementsAre(1, 16)));
}

TEST_F(TrainingInput, WithoutAnEvaluationSetNothingIsEvaluated) {
  test_ = nullptr;
  spec_.mutable_evaluate()->mutable_every()->set_steps(1);
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  EXPECT_TRUE(std::isnan(summary.test_accuracy));
  EXPECT_TRUE(runner_.evaluated.empty());
  EXPECT_THAT(calls_, Not(Contains("barrier evaluate-final")));
  EXPECT_EQ(calls_.back(), "leave finished");
}

// Each part of a step takes a time of its own, on a clock that nothing else moves.
TEST_F(TrainingInput, EachPartOfAStepIsReportedWithItsTime) {
  const auto pass = [&](double seconds) { clock_.SetNow(clock_.Now() + absl::Seconds(seconds)); };
  spec_.set_workers(2);
  spec_.set_log_every(3);
  input_.before = [&](const InputRequest&) {
    pass(1);
    return absl::OkStatus();
  };
  runner_.before_update = [&](const ReplicaStep& step) {
    pass(2);
    EXPECT_THAT(step.others->CallRoll({}, false), IsOk());
  };
  client_.reduce = [&] {
    pass(4);
    return ReduceStats();
  };
  client_.answer = [&](const PushOptions&, PushStats& stats) {
    stats.sending = absl::Seconds(8);
    stats.waiting = absl::Seconds(16);
    stats.receiving = absl::Seconds(32);
    pass(8 + 16 + 32);
  };
  runner_.loop = [&](TrainingSteps& steps) {
    while (steps.Next()) {
      steps.Log(steps.Step());
      pass(64);  // the loop's own
    }
  };
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  ASSERT_EQ(session_.reported.size(), 1u);
  for (const StepSeconds& seconds : {session_.reported[0].step_seconds, summary.step_seconds}) {
    EXPECT_EQ(seconds.input, 1);
    EXPECT_EQ(seconds.compute, 2);
    EXPECT_EQ(seconds.push, 8);
    EXPECT_EQ(seconds.wait, 4 + 16);
    EXPECT_EQ(seconds.pull, 32);
  }
}

// Three updates: two are waited for by evaluations between the steps, the last one at the end.
TEST_F(TrainingInput, AWaitForDeferredWeightsCountsAlsoWhereItIsBetweenSteps) {
  class FiveSeconds final : public PendingPush {
   public:
    explicit FiveSeconds(FakeClock& clock) : clock_(clock) {}
    absl::StatusOr<PushStats> Wait() override {
      clock_.SetNow(clock_.Now() + absl::Seconds(5));
      return PushStats();
    }

   private:
    FakeClock& clock_;
  };
  spec_.mutable_evaluate()->mutable_every()->set_examples(8);
  runner_.defers = true;
  client_.start = [&] { return std::make_unique<FiveSeconds>(clock_); };
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  EXPECT_EQ(summary.step_seconds.wait, 5);
  EXPECT_EQ(summary.step_seconds.compute, 0);
}

}  // namespace
}  // namespace weir
