// SPDX-License-Identifier: Apache-2.0
// Loops of the model's own, and what a step function does that none of one update is.
#include <algorithm>

#include "tests/unit/worker/training_fixture.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

class OwnLoop : public TrainingFixture {};

// Two steps in a turn of the loop, of which the second is logged; the job has three.
TEST_F(OwnLoop, AModelsOwnLoopTakesTheStepsAndLearnsWhereTheyEnd) {
  spec_.set_log_every(1);
  std::vector<absl::Status> statuses;
  runner_.loop = [&](TrainingSteps& steps) {
    while (steps.Next()) {
      statuses.push_back(steps.Step().status());
      const absl::StatusOr<Metrics> second = steps.Step();
      statuses.push_back(second.status());
      steps.Log(second);
    }
  };
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  EXPECT_EQ(summary.steps, 3u);
  ASSERT_EQ(statuses.size(), 4u);
  EXPECT_EQ(statuses[3].code(), absl::StatusCode::kOutOfRange);
  std::vector<size_t> logged;
  for (const Progress& progress : session_.reported) logged.push_back(progress.metrics.size());
  EXPECT_THAT(logged, ElementsAre(0, 1, 0));
}

// The loop goes on stepping after an error, and ends as if it had looked.
TEST_F(OwnLoop, AnErrorOfAStepSticksAndIsReportedWhateverTheLoopDoes) {
  client_.before_push = [&](const PushOptions& options) -> absl::Status {
    return options.step == 1 ? absl::InternalError("broken") : absl::OkStatus();
  };
  int turns = 0;
  runner_.loop = [&](TrainingSteps& steps) {
    while (steps.Next()) {
      ++turns;
      for (int i = 0; i < 3; ++i) (void)steps.Step();
    }
  };
  EXPECT_THAT(Run().status(), HasStatus(absl::StatusCode::kInternal, "broken"));
  EXPECT_EQ(turns, 1);
  EXPECT_EQ(client_.pushes.size(), 1u);
}

TEST_F(OwnLoop, ALoopThatThrowsOrReturnsEarlyIsAnError) {
  runner_.loop = [](TrainingSteps& steps) {
    if (steps.Next()) (void)steps.Step();
  };
  EXPECT_THAT(Run().status(),
              HasStatus(absl::StatusCode::kFailedPrecondition,
                        "the model's Loop has returned after step 1: it goes on until Next is "
                        "false"));
  runner_.loop_status = absl::InternalError("the model's Loop: it threw");
  EXPECT_EQ(Run().status(), runner_.loop_status);
}

// The servers cannot know that the last step's second update was its last.
TEST_F(OwnLoop, WhereAGroupHasSeveralUpdatesInAStepAllAskForTheWeightsAfterTheLastOne) {
  runner_.updates_a_step = 2;
  WEIR_ASSERT_OK(Run());
  EXPECT_EQ(client_.pushes[5].group_step, 5u);
  EXPECT_EQ(client_.pushes[5].step, 2u);
  EXPECT_THAT(calls_, ElementsAre("declare", "assign", "initialised", "pull 0", "state 3", "pull 3",
                                  "barrier end", "save", "barrier saved", "pull 3",
                                  "barrier evaluate-final", "leave finished"));
}

// How many updates a step has shows in the first.
TEST_F(OwnLoop, InTheFirstStepOfAnAttemptPushesSayThatOthersMayFollow) {
  runner_.updates_a_step = 2;
  WEIR_ASSERT_OK(Run());
  std::vector<bool> said;
  for (const PushOptions& push : client_.pushes) said.push_back(push.may_update_again);
  EXPECT_THAT(said, ElementsAre(true, true, false, false, false, false));
}

// Nobody's next step shows that it is over.
TEST_F(OwnLoop, WhereTheFirstStepIsTheLastAllAskForTheWeightsAfterIt) {
  spec_.mutable_data()->mutable_batch()->set_global(20);
  WEIR_ASSERT_OK(Run());
  EXPECT_EQ(client_.pushes.size(), 1u);
  EXPECT_EQ(std::count(calls_.begin(), calls_.end(), "pull 1"), 2);  // and for the evaluation
}

// The last of the three steps updates nothing.
TEST_F(OwnLoop, WhereTheLastStepLeavesAGroupOutAllAskForTheWeightsAfterItToo) {
  runner_.loop = [&](TrainingSteps& steps) {
    while (steps.Next()) {
      runner_.forgets_to_step = steps.Place().step == 2;
      (void)steps.Step();
    }
  };
  WEIR_ASSERT_OK(Run());
  EXPECT_EQ(client_.pushes.size(), 2u);
  EXPECT_EQ(std::count(calls_.begin(), calls_.end(), "pull 3"), 2);
}

TEST_F(OwnLoop, AModelThatNeverStepsAnOptimizerIsAnError) {
  runner_.forgets_to_step = true;
  EXPECT_THAT(Run().status(),
              HasStatus(absl::StatusCode::kFailedPrecondition,
                        "nothing was trained in 3 steps: no step function has called Step() of an "
                        "optimizer, such as sgd"));
}

TEST_F(OwnLoop, ALoopIsEnteredAnewAfterARollback) {
  int entered = 0;
  runner_.loop = [&](TrainingSteps& steps) {
    ++entered;
    while (steps.Next()) (void)steps.Step();
  };
  client_.before_push = [&](const PushOptions& options) -> absl::Status {
    if (options.step != 1 || session_.info.attempt > 0) return absl::OkStatus();
    session_.info.attempt = 1;
    return absl::AbortedError("rolled back");
  };
  WEIR_ASSERT_OK(Run());
  EXPECT_EQ(entered, 2);
}

// The steps of 8, 16 and 20 examples in one turn: what falls due within it comes once, after it.
TEST_F(OwnLoop, WhatFallsDueWithinATurnOfTheLoopIsDoneBetweenTurns) {
  spec_.mutable_length()->set_epochs(2);
  spec_.mutable_evaluate()->mutable_every()->set_examples(8);
  runner_.loop = [&](TrainingSteps& steps) {
    while (steps.Next()) {
      for (int i = 0; i < 3; ++i) (void)steps.Step();
    }
  };
  WEIR_ASSERT_OK(Run());
  EXPECT_THAT(calls_, AllOf(Contains("pull 3"), Not(Contains("pull 1")), Not(Contains("pull 2")),
                            Not(Contains("pull 4")), Not(Contains("pull 5"))));
}
// Schedules and checkpoints go by them.
TEST_F(OwnLoop, SeveralUpdatesOfAGroupInAStepCountItsExamplesOnce) {
  runner_.updates_a_step = 3;
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  uint64_t examples = 0;
  for (const PushOptions& push : client_.pushes) {
    if (push.group == 1) examples += push.examples;
  }
  EXPECT_EQ(examples, summary.examples);
  EXPECT_GT(examples, 0u);
}

}  // namespace
}  // namespace weir
