// SPDX-License-Identifier: Apache-2.0
// What of a run depends on its regime, sync apart.
#include "tests/unit/worker/training_fixture.h"

namespace weir {
namespace {

using ::testing::ElementsAre;

class TrainingRegimes : public TrainingFixture {};

TEST_F(TrainingRegimes, AsyncTakesRangesUntilTheDataEnds) {
  spec_.mutable_regime()->set_kind(v1::REGIME_ASYNC);
  session_.ranges = {{0, 0, 16}, {0, 16, 20}};
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  EXPECT_THAT(runner_.trained, ElementsAre(8, 8, 4));
  EXPECT_EQ(summary.steps, 3u);
  EXPECT_EQ(session_.reported.back().staleness, 3);
}

// Steps of 4 examples; the other worker is taken to be as fast. Before the attempt there were 5
// steps, of 5 * 4 examples: one epoch.
TEST_F(TrainingRegimes, OutsideSyncTheGlobalStepFollowsFromTheExamplesOfAllWorkers) {
  spec_.mutable_regime()->set_kind(v1::REGIME_ASYNC);
  spec_.set_workers(2);
  spec_.mutable_length()->set_epochs(2);
  session_.info.members = {{0, 0}, {1, 0}};
  session_.info.resume_step = 5;
  session_.info.resume_examples = 20;
  session_.ranges = {{1, 0, 12}};
  session_.alike = 2;
  WEIR_ASSERT_OK(Run().status());
  std::vector<uint64_t> own;
  std::vector<uint64_t> global;
  for (const ReplicaStep& step : runner_.steps) {
    own.push_back(step.step);
    global.push_back(step.global_step);
  }
  EXPECT_THAT(own, ElementsAre(5, 6, 7));
  EXPECT_THAT(global, ElementsAre(5, 7, 9));
}

TEST_F(TrainingRegimes, InSyncTheGlobalStepIsTheStep) {
  WEIR_ASSERT_OK(Run());
  for (const ReplicaStep& step : runner_.steps) EXPECT_EQ(step.global_step, step.step);
  EXPECT_EQ(runner_.steps.size(), 3u);
}

// 2 epochs are 6 steps, of which the others have done 4 when this worker's second push arrives.
TEST_F(TrainingRegimes, ALateWorkerGoesOnWithTheOthersStepAndCountsIt) {
  spec_.set_workers(3);
  spec_.mutable_regime()->set_backup_workers(1);
  spec_.mutable_length()->set_epochs(2);
  client_.answer = [](const PushOptions& options, PushStats& stats) {
    stats.late = options.step == 1;
    if (stats.late) stats.next_step = stats.next_group_step = 4;
  };
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  std::vector<uint64_t> steps;
  for (const PushOptions& push : client_.pushes) {
    EXPECT_EQ(push.group_step, push.step);
    steps.push_back(push.step);
  }
  EXPECT_THAT(steps, ElementsAre(0, 1, 4, 5));
  EXPECT_EQ(summary.late_pushes, 1u);
  EXPECT_EQ(summary.steps, 6u);
  EXPECT_EQ(session_.reported.back().late_pushes, 1u);
}

TEST_F(TrainingRegimes, ABoundedWorkerBeginsWhereTheSlowestIsAndSaysWhenItHasFinished) {
  spec_.mutable_regime()->set_kind(v1::REGIME_BOUNDED_STALENESS);
  spec_.mutable_regime()->set_bounded_staleness(3);
  session_.info.state = JobState::kRunning;
  session_.info.initialiser = false;
  session_.info.members = {{0, 5, 0}};
  session_.ranges = {{0, 0, 20}};
  client_.slowest_step = 7;
  WEIR_ASSERT_OK(Run());
  EXPECT_THAT(calls_,
              ElementsAre("declare", "pull 5", "finished 1", "state 10", "barrier end", "save",
                          "barrier saved", "pull 0", "barrier evaluate-final", "leave finished"));
  ASSERT_EQ(client_.pushes.size(), 3u);
  EXPECT_EQ(client_.pushes[0].step, 7u);
}

// 8, 8 and 4 examples, and two steps before them in which others hold all that is left.
TEST_F(TrainingRegimes, ABoundedWorkerWithoutDataPushesItsStepsWithoutTheModel) {
  spec_.mutable_regime()->set_kind(v1::REGIME_BOUNDED_STALENESS);
  spec_.mutable_regime()->set_bounded_staleness(3);
  session_.ranges = {{0, 0, 20}};
  session_.dry = 2;
  WEIR_ASSERT_OK(Run());
  EXPECT_THAT(client_.absent, ElementsAre(true, true, false, false, false));
  EXPECT_THAT(runner_.trained, ElementsAre(8, 8, 4));
  EXPECT_EQ(runner_.steps[0].step, 2u);
  EXPECT_EQ(client_.pushes[0].weight, 0);
  EXPECT_EQ(client_.weight, 97);
  EXPECT_EQ(runner_.weight, 97);
}

// Ranks 1 and 3 are a group, of which 3 joins with step 1.
TEST_F(TrainingRegimes, InSyncGroupsThoseOfTheGroupAreInSync) {
  spec_.set_workers(4);
  spec_.mutable_regime()->set_kind(v1::REGIME_SYNC_GROUPS);
  spec_.mutable_regime()->set_sync_group_size(2);
  session_.info.rank = 3;
  session_.info.members = {{0, 0, 0}, {1, 0, 1}, {2, 0, 0}, {3, 1, 1}};
  session_.info.initialiser = false;
  session_.info.state = JobState::kRunning;
  session_.ranges = {{0, 0, 20}};
  (void)Run();
  ASSERT_FALSE(runner_.steps.empty());
  EXPECT_EQ(runner_.steps[0].step, 1u);
  EXPECT_EQ(runner_.steps[0].first_replica, 3u);
  EXPECT_EQ(runner_.steps[0].first_index, 1u);
  EXPECT_EQ(runner_.steps[0].replicas_in_sync, 2u);
}
}  // namespace
}  // namespace weir
