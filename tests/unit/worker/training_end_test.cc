// SPDX-License-Identifier: Apache-2.0
// How a run ends: by its length, by an interruption, by a stop of the job, by an error.
#include <algorithm>

#include "tests/unit/worker/training_fixture.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class TrainingEnd : public TrainingFixture {
 protected:
  void BeTheSecondOfTwo() {
    session_.info.rank = 1;
    session_.info.members = {{0, 0}, {1, 0}};
    session_.info.initialiser = false;
    session_.info.state = JobState::kRunning;
    session_.alike = 2;
  }
};

// The job has ended when it comes: it brings nothing, but it is not left waiting for a step that
// nobody runs.
TEST_F(TrainingEnd, AJoinerWhoseFirstStepIsBehindTheEndMeetsTheOthersThere) {
  JoinRunning(5);
  WEIR_ASSERT_OK(Run());
  EXPECT_TRUE(client_.pushes.empty());
  EXPECT_THAT(calls_,
              AllOf(Contains("pull 3"), Contains("barrier end"), Contains("leave finished")));
}

TEST_F(TrainingEnd, AnInterruptedWorkerLeavesTheJob) {
  client_.before_push = [&](const PushOptions& options) {
    interrupted_ = options.step == 1;
    return absl::OkStatus();
  };
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(client_.pushes.size(), 2u);
  EXPECT_EQ(calls_.back(), "leave interrupted");
}

TEST_F(TrainingEnd, AnInterruptionEndsAWaitForTheOthersWithinHalfASecond) {
  spec_.set_step_timeout_ms(absl::ToInt64Milliseconds(absl::Hours(1)));
  const absl::Time interrupted_at = clock_.Now() + absl::Seconds(12);
  session_.not_ready = [&](absl::Duration timeout) {
    clock_.SetNow(clock_.Now() + timeout);
    interrupted_ = clock_.Now() >= interrupted_at;
    return absl::DeadlineExceededError("1 of 2 workers are here");
  };
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kCancelled);
  EXPECT_LE(clock_.Now() - interrupted_at, absl::Milliseconds(500));
  EXPECT_EQ(calls_.back(), "leave interrupted");
}

TEST_F(TrainingEnd, AnInterruptionEndsAWaitForANewAttemptWithinHalfASecond) {
  const absl::Time interrupted_at = clock_.Now() + absl::Seconds(12);
  client_.before_push = [](const PushOptions&) { return absl::AbortedError("rolled back"); };
  session_.no_other_attempt = [&](absl::Duration timeout) {
    clock_.SetNow(clock_.Now() + timeout);
    interrupted_ = clock_.Now() >= interrupted_at;
    return absl::DeadlineExceededError("still in attempt 1");
  };
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kCancelled);
  EXPECT_LE(clock_.Now() - interrupted_at, absl::Milliseconds(500));
}

TEST_F(TrainingEnd, AJobStoppedByCommandIsLeftWithItsStatePushedForTheCoordinatorToSave) {
  client_.before_push = [&](const PushOptions& options) {
    session_.info.stop = options.step == 1;
    return absl::OkStatus();
  };
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  EXPECT_TRUE(summary.stopped);
  EXPECT_EQ(summary.steps, 2u);
  EXPECT_THAT(calls_, AllOf(Contains("state 2"), Not(Contains("save")), Contains("leave finished"),
                            Not(Contains("barrier end"))));
}

TEST_F(TrainingEnd, AStoppedSyncJobIsLeftBeforeTheStepThatNobodyRuns) {
  client_.before_push = [&](const PushOptions& options) {
    session_.info.stop = options.step >= 1;
    session_.info.stop_step = 3;
    return absl::OkStatus();
  };
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  EXPECT_TRUE(summary.stopped);
  EXPECT_EQ(summary.steps, 3u);
}

TEST_F(TrainingEnd, AStoppedWorkerOfASyncGroupLeavesBeforeTheStepThatItsGroupDoesNotRun) {
  spec_.set_workers(2);
  spec_.mutable_regime()->set_kind(v1::REGIME_SYNC_GROUPS);
  spec_.mutable_regime()->set_sync_group_size(2);
  session_.ranges = {{0, 0, 20}};
  client_.before_push = [&](const PushOptions&) {
    session_.info.stop = true;
    session_.info.stop_step = 2;
    return absl::OkStatus();
  };
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  EXPECT_TRUE(summary.stopped);
  EXPECT_EQ(summary.steps, 2u);
}

TEST_F(TrainingEnd, ACheckpointThatFailsDoesNotCostTheEvaluation) {
  session_.saved = absl::ResourceExhaustedError("the disk is full");
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  EXPECT_EQ(summary.test_accuracy, 0.5);
  EXPECT_EQ(summary.checkpoint, "");
  EXPECT_EQ(summary.saved, session_.saved);
}

// The first worker may have left before the second comes out of the last barrier.
TEST_F(TrainingEnd, OnlyTheLowestRankOfTheWholeJobWritesTheSummary) {
  BeTheSecondOfTwo();
  for (const char* barrier : {"end", "saved"}) session_.from_others[barrier] = {{"rank/0", 1}};
  session_.from_others["saved"]["tried"] = 1;
  session_.at_barrier = [&](const std::string& name) {
    if (name == "evaluate-final") session_.info.members = {{1, 0}};
  };
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  EXPECT_FALSE(summary.lead);
  EXPECT_THAT(calls_, Not(Contains("save")));
}

// All meet at the end; the first one is not among those who meet when it should have saved.
TEST_F(TrainingEnd, TheCheckpointOfOneThatDiesOverItIsSavedByTheNext) {
  BeTheSecondOfTwo();
  session_.from_others["end"] = {{"rank/0", 1}};
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  EXPECT_THAT(std::vector<std::string>(std::find(calls_.begin(), calls_.end(), "barrier end"),
                                       calls_.end() - 3),
              ElementsAre("barrier end", "barrier saved", "save", "barrier saved-2"));
  EXPECT_EQ(summary.checkpoint, "checkpoint-1");
  EXPECT_TRUE(summary.lead);
}

// One that cannot be saved is not tried by all, one after the other.
TEST_F(TrainingEnd, ACheckpointThatAnotherHasTriedToSaveIsLeftAtThat) {
  BeTheSecondOfTwo();
  session_.from_others["end"] = {{"rank/0", 1}};
  session_.from_others["saved"] = {{"rank/0", 1}, {"tried", 1}};
  WEIR_ASSERT_OK(Run());
  EXPECT_THAT(calls_, AllOf(Not(Contains("save")), Not(Contains("barrier saved-2"))));
}

// Of three steps, the last of which the other was to tell the servers of.
TEST_F(TrainingEnd, WhatADeadWorkerHadToTellOfALocalOptimizerIsToldByTheNext) {
  BeTheSecondOfTwo();
  const float value = 7;
  runner_.local = {{1, {{0, &value, sizeof(value)}}, false}};
  WEIR_ASSERT_OK(Run());
  ASSERT_EQ(client_.pushes.size(), 4u);
  EXPECT_EQ(client_.pushes[3].group, 1u);
  EXPECT_EQ(client_.pushes[3].step, 2u);
  EXPECT_EQ(client_.pushes[3].group_step, 3u);
  EXPECT_EQ(client_.pushes[3].weight, 1);
  EXPECT_EQ(client_.pushes[3].examples, 0u);
  EXPECT_FALSE(client_.absent[3]);
  // Then all of it, and before anything else is saved or read.
  EXPECT_THAT(
      std::vector<std::string>(calls_.begin() + 2, calls_.begin() + 7),
      ElementsAre("barrier stepped", "barrier stepped-2", "state 3", "pull 3", "barrier end"));
}

TEST_F(TrainingEnd, WhatALowerRankTellsOfALocalOptimizerIsAbsentHere) {
  BeTheSecondOfTwo();
  const float value = 7;
  runner_.local = {{1, {{0, &value, sizeof(value)}}, false}};
  session_.from_others["stepped"] = {{"rank/0", 1}};
  session_.from_others["stepped-2"] = {{"rank/0", 1}, {"told/1", 1}};
  WEIR_ASSERT_OK(Run());
  ASSERT_EQ(client_.pushes.size(), 4u);
  EXPECT_EQ(client_.pushes[3].weight, 0);
  EXPECT_TRUE(client_.absent[3]);
}

TEST_F(TrainingEnd, ALocalOptimizerOfWhichThoseWhoAreThereHaveToldIsNotToldAgain) {
  BeTheSecondOfTwo();
  const float value = 7;
  runner_.local = {{1, {{0, &value, sizeof(value)}}, false}};
  session_.from_others["stepped"] = {{"rank/0", 1}, {"told/1", 1}};
  WEIR_ASSERT_OK(Run());
  EXPECT_EQ(client_.pushes.size(), 3u);
  EXPECT_THAT(calls_, Not(Contains("barrier stepped-2")));
}

TEST_F(TrainingEnd, ARefusedDeclarationEndsTheRun) {
  session_.declared = absl::FailedPreconditionError("variable weight: shape differs");
  EXPECT_THAT(Run().status(),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("shape differs")));
  EXPECT_EQ(calls_.back(), "leave variable weight: shape differs");
}

TEST_F(TrainingEnd, BarriersSayTheStepsDoneInSyncOnly) {
  WEIR_ASSERT_OK(Run());
  EXPECT_THAT(session_.barrier_steps, ElementsAre(3, 3, 3));
  session_.barrier_steps.clear();
  spec_.mutable_regime()->set_kind(v1::REGIME_ASYNC);
  WEIR_ASSERT_OK(Run());
  EXPECT_THAT(session_.barrier_steps, ElementsAre(0, 0, 0));
}

TEST_F(TrainingEnd, AWorkerThatIsNoLongerAMemberGivesUp) {
  client_.before_push = [&](const PushOptions&) {
    session_.info.member = false;
    return absl::AbortedError("no longer a member");
  };
  EXPECT_THAT(Run().status(),
              HasStatus(absl::StatusCode::kAborted, HasSubstr("no longer a member")));
}
}  // namespace
}  // namespace weir
