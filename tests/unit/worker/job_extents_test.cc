// SPDX-License-Identifier: Apache-2.0
#include "worker/job_extents.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

// 1,000 examples in global batches of 96 over 3 workers: 11 steps an epoch, the last of 40.
v1::JobSpec Spec(v1::Regime regime) {
  v1::JobSpec spec;
  spec.set_train_examples(1000);
  spec.set_workers(3);
  spec.mutable_data()->mutable_batch()->set_global(96);
  spec.mutable_regime()->set_kind(regime);
  return spec;
}

TEST(JobExtents, AnEpochHasAShortLastStep) {
  v1::JobSpec spec = Spec(v1::REGIME_SYNC);
  EXPECT_EQ(StepsPerEpoch(spec), 11u);
  spec.mutable_length()->set_epochs(2);
  EXPECT_EQ(TotalSteps(spec), 22u);
  EXPECT_EQ(TotalExamples(spec), 2000u);
}

TEST(JobExtents, ExamplesAreCountedOverTheShortStepsOfEpochs) {
  const v1::JobSpec spec = Spec(v1::REGIME_SYNC);
  EXPECT_EQ(ExamplesAfterSteps(10, spec), 960u);
  EXPECT_EQ(ExamplesAfterSteps(11, spec), 1000u);
  EXPECT_EQ(ExamplesAfterSteps(23, spec), 2096u);
}

TEST(JobExtents, ALengthInExamplesEndsWithTheStepThatReachesIt) {
  v1::JobSpec spec = Spec(v1::REGIME_SYNC);
  spec.mutable_length()->set_examples(1097);  // an epoch, and 97 more: two steps
  EXPECT_EQ(TotalSteps(spec), 13u);
}

TEST(JobExtents, PartsOfEpochsAreNotRoundedUpByNoise) {
  v1::JobSpec spec = Spec(v1::REGIME_SYNC);
  v1::Extent extent;
  extent.set_epochs(0.1 + 0.2);  // 0.30000000000000004
  EXPECT_EQ(ExamplesOf(extent, spec), 300u);
}

TEST(JobExtents, AStepIsOfAllWorkersInSyncAndOfOneInAsync) {
  v1::Extent extent;
  extent.set_steps(10);
  EXPECT_EQ(ExamplesOf(extent, Spec(v1::REGIME_SYNC)), 960u);
  EXPECT_EQ(ExamplesOf(extent, Spec(v1::REGIME_ASYNC)), 320u);
}

TEST(JobExtents, ABatchPerReplicaIsMultipliedByTheWorkers) {
  v1::JobSpec spec = Spec(v1::REGIME_ASYNC);
  spec.mutable_data()->mutable_batch()->set_per_replica(32);
  EXPECT_EQ(GlobalBatch(spec), 96u);
  EXPECT_EQ(PerWorkerBatch(spec), 32);
  EXPECT_EQ(AsyncBatch(spec), 32u);
}

TEST(JobExtents, ABatchThatDoesNotDivideGivesAFractionAsTheUnitOfWeights) {
  v1::JobSpec spec = Spec(v1::REGIME_ASYNC);
  spec.mutable_data()->mutable_batch()->set_global(100);
  EXPECT_DOUBLE_EQ(PerWorkerBatch(spec), 100.0 / 3);
  EXPECT_EQ(AsyncBatch(spec), 33u);
}

}  // namespace
}  // namespace weir
