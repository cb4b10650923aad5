// SPDX-License-Identifier: Apache-2.0
// A run in sync from its declaration on: its steps, rollbacks, joiners, repeated steps.
#include "rpc/errors.h"
#include "tests/support/log_capture.h"
#include "tests/unit/worker/training_fixture.h"

namespace weir {
namespace {

using ::testing::_;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class TrainingLoopTest : public TrainingFixture {};

TEST_F(TrainingLoopTest, AJobRunsFromItsDeclarationToItsEnd) {
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  EXPECT_THAT(calls_, ElementsAre("declare", "assign", "initialised", "pull 0", "state 3",
                                  "barrier end", "save", "barrier saved", "pull 3",
                                  "barrier evaluate-final", "leave finished"));
  EXPECT_EQ(summary.steps, 3u);
  EXPECT_EQ(summary.examples, 20u);
  EXPECT_EQ(summary.test_accuracy, 0.5);
  EXPECT_EQ(summary.checkpoint, "checkpoint-1");
  EXPECT_EQ(summary.servers, 2u);
  EXPECT_EQ(summary.regime, "sync");
  EXPECT_TRUE(summary.lead);
  EXPECT_EQ(client_.weight, 97);
}

TEST_F(TrainingLoopTest, APushSaysItsPlaceItsExamplesAndItsWeight) {
  WEIR_ASSERT_OK(Run());
  ASSERT_EQ(client_.pushes.size(), 3u);
  EXPECT_EQ(client_.pushes[2].step, 2u);
  EXPECT_EQ(client_.pushes[2].group_step, 2u);
  EXPECT_EQ(client_.pushes[2].examples, 4u);
  EXPECT_EQ(client_.pushes[2].consumed, 20u);
  EXPECT_EQ(client_.pushes[2].weight, 0.5);  // 4 of 8
}

TEST_F(TrainingLoopTest, AWorkerThatIsNotTheInitialiserOnlyPulls) {
  session_.info.initialiser = false;
  session_.info.state = JobState::kRunning;
  WEIR_ASSERT_OK(Run());
  EXPECT_THAT(calls_, Not(Contains("assign")));
}

TEST_F(TrainingLoopTest, ARollbackGoesOnFromTheStepOfTheNewAttempt) {
  spec_.mutable_length()->set_epochs(2);
  client_.before_push = [&](const PushOptions& options) -> absl::Status {
    if (options.step != 4 || session_.info.attempt > 0) return absl::OkStatus();
    session_.info.attempt = 1;
    session_.info.resume_step = 2;
    session_.info.resume_group_steps = {0, 2};
    session_.info.lost_steps = 2;
    client_.weight = 98;  // as it was after two steps
    return absl::AbortedError("rolled back");
  };
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  std::vector<uint64_t> steps;
  for (const PushOptions& push : client_.pushes) steps.push_back(push.step);
  EXPECT_THAT(steps, ElementsAre(0, 1, 2, 3, 2, 3, 4, 5));
  EXPECT_EQ(client_.weight, 94);
  EXPECT_EQ(summary.lost_steps, 2u);
}

TEST_F(TrainingLoopTest, WithoutACheckpointTheInitialiserAssignsItsFirstValuesAgain) {
  client_.before_push = [&](const PushOptions& options) -> absl::Status {
    if (options.step != 1 || session_.info.attempt > 0) return absl::OkStatus();
    session_.info.attempt = 1;
    session_.info.state = JobState::kInitialising;
    client_.weight = -1;
    return absl::AbortedError("rolled back");
  };
  WEIR_ASSERT_OK(Run());
  EXPECT_EQ(client_.weight, 97);
}

// The initialiser's server dies after it has reported, before the job runs.
TEST_F(TrainingLoopTest, ARollbackBeforeTheFirstStepIsFollowedToo) {
  int asked = 0;
  session_.not_ready = [&](absl::Duration) -> absl::Status {
    if (++asked == 2) {
      session_.info.attempt = 1;
      session_.info.state = JobState::kInitialising;
    }
    return absl::OkStatus();
  };
  WEIR_ASSERT_OK(Run());
  calls_.resize(6);
  EXPECT_THAT(calls_,
              ElementsAre("declare", "assign", "initialised", "assign", "initialised", "pull 0"));
}

TEST_F(TrainingLoopTest, TheLogSaysWhatAnAttemptResumesFromAndWhatWasDamaged) {
  session_.info.initialiser = false;
  session_.info.state = JobState::kRunning;
  session_.info.attempt = 2;
  session_.info.checkpoint_id = "00000010-2";
  session_.info.resume_step = 1;
  session_.info.message = "resumed from 00000010-2 (step 1); 00000012-2 is damaged: 000001.sst";
  const LogCapture log;
  WEIR_ASSERT_OK(Run());
  EXPECT_THAT(log.LinesWith("attempt 2 resumes from 00000010-2 (step 1)"), ElementsAre(_));
  EXPECT_THAT(log.LinesWith("00000012-2 is damaged: 000001.sst"), ElementsAre(_));
}

// 20 examples in steps of 1: in step 0 the first of two members takes the example.
TEST_F(TrainingLoopTest, AStepWithoutExamplesIsPushedAsAbsent) {
  spec_.mutable_data()->mutable_batch()->set_global(1);
  spec_.mutable_length()->set_steps(2);
  session_.info.initialiser = false;
  session_.info.state = JobState::kRunning;
  session_.info.members = {{0, 0}, {1, 0}};
  session_.info.rank = 1;
  // The fake's barrier sums this worker alone, so the evaluation never covers the test set.
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(client_.absent, ElementsAre(true, true));
  EXPECT_EQ(client_.pushes[0].weight, 0);
  EXPECT_THAT(runner_.trained, ElementsAre(0, 0));
}

// Ranks 0, 3 and 5, of which 5 joins with step 2.
TEST_F(TrainingLoopTest, AStepKnowsItsPlaceAmongTheReplicasInSync) {
  session_.info.rank = 3;
  session_.info.members = {{0, 0}, {3, 0}, {5, 2}};
  session_.info.initialiser = false;
  session_.info.state = JobState::kRunning;
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kUnavailable);  // as above
  ASSERT_EQ(runner_.steps.size(), 3u);
  EXPECT_EQ(runner_.steps[0].first_replica, 3u);
  EXPECT_EQ(runner_.steps[0].first_index, 1u);
  EXPECT_EQ(runner_.steps[1].replicas_in_sync, 2u);
  EXPECT_EQ(runner_.steps[2].replicas_in_sync, 3u);
  runner_.steps.clear();
  spec_.mutable_regime()->set_kind(v1::REGIME_ASYNC);
  session_.ranges = {{0, 0, 8}};
  (void)Run();
  EXPECT_EQ(runner_.steps[0].replicas_in_sync, 1u);
}

TEST_F(TrainingLoopTest, AJoinerStartsWithItsFirstStepAndTheGroupStepsOfThen) {
  JoinRunning(2);
  client_.group_steps = {0, 7};  // the group is not updated once a step
  WEIR_ASSERT_OK(Run());
  ASSERT_EQ(client_.pushes.size(), 1u);
  EXPECT_EQ(client_.pushes[0].step, 2u);
  EXPECT_EQ(client_.pushes[0].group_step, 7u);
  EXPECT_THAT(calls_, Contains("pull 2"));
}

TEST_F(TrainingLoopTest, AStepWithinWhoseCollectivesAWorkerLeftIsRepeatedOnTheSameExamples) {
  spec_.set_workers(2);
  runner_.failures = {MemberLeft("rank 1 has left"), MemberLeft("rank 2 has left")};
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  EXPECT_EQ(summary.steps, 3u);
  EXPECT_THAT(runner_.trained, ElementsAre(8, 8, 8, 8, 4));
  EXPECT_EQ(runner_.steps[2].step, 0u);
  EXPECT_NE(runner_.steps[2].others, nullptr);
  EXPECT_EQ(client_.pushes.size(), 3u);
  EXPECT_EQ(client_.pushes[2].consumed, 20u);
}

// The gradient counts once.
TEST_F(TrainingLoopTest, ARepeatedStepUpdatesNothingTwice) {
  spec_.set_workers(2);
  runner_.late_failures = {MemberLeft("rank 1 has left")};
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  EXPECT_EQ(summary.steps, 3u);
  EXPECT_THAT(runner_.trained, ElementsAre(8, 8, 8, 4));
  ASSERT_EQ(client_.pushes.size(), 3u);
  for (uint64_t step = 0; step < 3; ++step) {
    EXPECT_EQ(client_.pushes[step].step, step);
    EXPECT_EQ(client_.pushes[step].group_step, step);
  }
}

TEST_F(TrainingLoopTest, AWaitForTheOthersIsLoggedEveryTenSeconds) {
  const LogCapture log;
  const absl::Time ready_at = clock_.Now() + absl::Seconds(35);
  session_.not_ready = [&](absl::Duration timeout) -> absl::Status {
    if (clock_.Now() >= ready_at) return absl::OkStatus();
    clock_.SetNow(clock_.Now() + timeout);
    return absl::DeadlineExceededError("1 of 2 workers are here");
  };
  WEIR_ASSERT_OK(Run());
  EXPECT_THAT(log.LinesWith("1 of 2 workers are here"),
              ElementsAre(HasSubstr("10s"), HasSubstr("20s"), HasSubstr("30s")));
}
}  // namespace
}  // namespace weir
