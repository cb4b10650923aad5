// SPDX-License-Identifier: Apache-2.0
// Evaluations at intervals and at the end: when, on which part, with which state.
#include <fstream>

#include "tests/support/temp_folder.h"
#include "tests/unit/worker/training_fixture.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class TrainingEvaluation : public TrainingFixture {};

// Rank 1 joins with step 3, behind the last one: the test set is divided without it.
TEST_F(TrainingEvaluation, AnEvaluationIsDividedAmongThoseThatHaveRunItsSteps) {
  session_.info.members = {{0, 0}, {1, 3}};
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  EXPECT_EQ(summary.test_accuracy, 0.5);
}

// This worker has trained on 8 of 20 examples when there are no more: others had the rest.
TEST_F(TrainingEvaluation, TheFinalEvaluationStandsAtTheJobsEnd) {
  const TempFolder folder;
  metrics_file_ = folder.path() + "/metrics.jsonl";
  spec_.mutable_regime()->set_kind(v1::REGIME_ASYNC);
  session_.ranges = {{0, 0, 8}};
  WEIR_ASSERT_OK(Run());
  std::ifstream file(metrics_file_);
  std::string interval;
  std::string evaluation;
  ASSERT_TRUE(std::getline(file, interval) && std::getline(file, evaluation));
  EXPECT_THAT(interval, HasSubstr("\"epoch\":0.4"));
  EXPECT_THAT(evaluation, AllOf(HasSubstr("\"epoch\":1.0"), HasSubstr("test_accuracy")));
}

// Positions 16 and 18 of 20 examples, an evaluation every 15: the others had theirs before this one
// came.
TEST_F(TrainingEvaluation, AJoinerDoesNotMakeUpForEvaluationsBeforeItsTime) {
  spec_.mutable_data()->mutable_batch()->set_global(2);
  spec_.mutable_evaluate()->mutable_every()->set_examples(15);
  JoinRunning(8);
  WEIR_ASSERT_OK(Run());
  EXPECT_EQ(client_.pushes.size(), 2u);
  EXPECT_THAT(calls_, Not(Contains("pull 9")));
}

TEST_F(TrainingEvaluation, EvaluationAtIntervalsLeavesTheReplicasStateAlone) {
  spec_.mutable_evaluate()->mutable_every()->set_examples(8);
  WEIR_ASSERT_OK(Run());
  // After the steps of 8 and of 16 examples, and at the end.
  EXPECT_THAT(calls_, AllOf(Contains("pull 1"), Contains("pull 2"), Contains("pull 3")));
  EXPECT_EQ(runner_.counter, 3);
}

// Else the lowest would wait for the second update of the one that waits for it in a collective.
TEST_F(TrainingEvaluation, WhoDoesNotEvaluateShowsThatItsStepsOfSeveralUpdatesAreDone) {
  spec_.mutable_evaluate()->mutable_every()->set_examples(16);
  runner_.updates_a_step = 2;
  session_.info.rank = 1;
  session_.info.members = {{0, 0}, {1, 0}};
  session_.info.initialiser = false;
  session_.info.state = JobState::kRunning;
  session_.alike = 2;
  WEIR_ASSERT_OK(Run());
  EXPECT_EQ(runner_.evaluated.size(), 1u);  // at the end
  EXPECT_THAT(calls_, AllOf(Contains("pull 2"), Not(Contains("pull 1"))));
}

// The aggregate has statistics of the others that are up to `state_every` steps old. At the end all
// have pushed theirs.
TEST_F(TrainingEvaluation, AnEvaluationWithinAsyncUsesStatisticsAsNewAsItsWeights) {
  spec_.mutable_regime()->set_kind(v1::REGIME_ASYNC);
  spec_.mutable_evaluate()->mutable_every()->set_examples(8);
  session_.ranges = {{0, 0, 20}};
  WEIR_ASSERT_OK(Run());
  EXPECT_THAT(runner_.evaluated, ElementsAre(1, 2, 0));
  EXPECT_EQ(runner_.counter, 3);
}

TEST_F(TrainingEvaluation, AnEvaluationWithinAsyncHasTheSumOfStateThatIsSummed) {
  runner_.AggregateStateBy(Aggregation::kSum);
  spec_.mutable_regime()->set_kind(v1::REGIME_ASYNC);
  spec_.mutable_evaluate()->mutable_every()->set_examples(8);
  session_.ranges = {{0, 0, 20}};
  WEIR_ASSERT_OK(Run());
  EXPECT_THAT(runner_.evaluated, ElementsAre(0, 0, 0));
}

TEST_F(TrainingEvaluation, AnEvaluationInSyncUsesTheStatisticsOfAll) {
  spec_.mutable_evaluate()->mutable_every()->set_examples(8);
  WEIR_ASSERT_OK(Run());
  EXPECT_THAT(runner_.evaluated, ElementsAre(0, 0, 0));
}
}  // namespace
}  // namespace weir
