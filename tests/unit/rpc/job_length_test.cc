// SPDX-License-Identifier: Apache-2.0
#include "rpc/job_length.h"

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

TEST(JobLength, AnEpochHasAShortLastStep) {
  v1::JobSpec spec = Spec(v1::REGIME_SYNC);
  EXPECT_EQ(StepsPerEpoch(spec), 11u);
  spec.mutable_length()->set_epochs(2);
  EXPECT_EQ(TotalSteps(spec), 22u);
  EXPECT_EQ(TotalExamples(spec), 2000u);
}

TEST(JobLength, ExamplesAreCountedOverTheShortStepsOfEpochs) {
  const v1::JobSpec spec = Spec(v1::REGIME_SYNC);
  EXPECT_EQ(ExamplesAfterSteps(10, spec), 960u);
  EXPECT_EQ(ExamplesAfterSteps(11, spec), 1000u);
  EXPECT_EQ(ExamplesAfterSteps(23, spec), 2096u);
}

TEST(JobLength, ExamplesTakeAsManyStepsAsMakeThem) {
  const v1::JobSpec spec = Spec(v1::REGIME_SYNC);
  EXPECT_EQ(StepsOver(0, spec), 0u);
  EXPECT_EQ(StepsOver(960, spec), 10u);
  EXPECT_EQ(StepsOver(1000, spec), 11u);
  EXPECT_EQ(StepsOver(2096, spec), 23u);
  EXPECT_EQ(StepsOver(2097, spec), 24u);
}

TEST(JobLength, WholeStepsAreThoseThatExamplesFill) {
  const v1::JobSpec spec = Spec(v1::REGIME_SYNC);
  EXPECT_EQ(WholeStepsIn(95, spec), 0u);
  EXPECT_EQ(WholeStepsIn(96, spec), 1u);
  EXPECT_EQ(WholeStepsIn(999, spec), 10u);
  EXPECT_EQ(WholeStepsIn(1000, spec), 11u) << "the short one";
  EXPECT_EQ(WholeStepsIn(2095, spec), 22u);
  for (uint64_t step = 0; step < 40; ++step) {
    EXPECT_EQ(WholeStepsIn(ExamplesAfterSteps(step, spec), spec), step);
  }
}

TEST(JobLength, ALengthInExamplesEndsWithTheStepThatReachesIt) {
  v1::JobSpec spec = Spec(v1::REGIME_SYNC);
  spec.mutable_length()->set_examples(1097);  // an epoch, and 97 more: two steps
  EXPECT_EQ(TotalSteps(spec), 13u);
}

TEST(JobLength, PartsOfEpochsAreNotRoundedUpByNoise) {
  v1::JobSpec spec = Spec(v1::REGIME_SYNC);
  v1::Extent extent;
  extent.set_epochs(0.1 + 0.2);  // 0.30000000000000004
  EXPECT_EQ(ExamplesOf(extent, spec), 300u);
}

TEST(JobLength, AStepIsOfAllWorkersInSyncAndOfOneInAsync) {
  v1::Extent extent;
  extent.set_steps(10);
  EXPECT_EQ(ExamplesOf(extent, Spec(v1::REGIME_SYNC)), 960u);
  EXPECT_EQ(ExamplesOf(extent, Spec(v1::REGIME_ASYNC)), 320u);
}

TEST(JobLength, ABatchPerReplicaIsMultipliedByTheWorkers) {
  v1::JobSpec spec = Spec(v1::REGIME_ASYNC);
  spec.mutable_data()->mutable_batch()->set_per_replica(32);
  EXPECT_EQ(GlobalBatch(spec), 96u);
  EXPECT_EQ(PerWorkerBatch(spec), 32);
  EXPECT_EQ(AsyncBatch(spec), 32u);
}

TEST(JobLength, ABatchThatDoesNotDivideGivesAFractionAsTheUnitOfWeights) {
  v1::JobSpec spec = Spec(v1::REGIME_ASYNC);
  spec.mutable_data()->mutable_batch()->set_global(100);
  EXPECT_DOUBLE_EQ(PerWorkerBatch(spec), 100.0 / 3);
  EXPECT_EQ(AsyncBatch(spec), 33u);
}

struct Case {
  const char* claim;
  v1::Regime regime;
  uint64_t set, workers, global_batch;
  double epochs;   // the length, or
  uint64_t steps;  // the same in steps
  uint64_t step_batch, steps_per_epoch, total_examples;
};

// Lengths are in epochs or, where steps are given, in steps.
TEST(JobLength, EverybodyCountsTheSame) {
  const Case cases[] = {
      {"epochs", v1::REGIME_SYNC, 1000, 4, 96, 2.5, 0, 96, 11, 2500},
      {"epochs, async", v1::REGIME_ASYNC, 1000, 4, 96, 2.5, 0, 24, 42, 2500},
      {"a whole epoch of steps", v1::REGIME_SYNC, 1000, 4, 96, 0, 11, 96, 11, 1000},
      {"an epoch and a step", v1::REGIME_SYNC, 1000, 4, 96, 0, 12, 96, 11, 1096},
      {"an epoch and a push", v1::REGIME_ASYNC, 1000, 4, 96, 0, 43, 24, 42, 1024},
      {"rounded down", v1::REGIME_ASYNC, 1000, 7, 100, 0, 71, 14, 72, 994},
      {"at least one", v1::REGIME_ASYNC, 10, 7, 3, 0, 10, 1, 10, 10},
      {"a batch above the set", v1::REGIME_SYNC, 10, 1, 100, 0, 3, 100, 1, 30},
      {"no set", v1::REGIME_SYNC, 0, 2, 10, 0, 5, 10, 0, 50},
  };
  for (const Case& c : cases) {
    v1::JobSpec spec;
    spec.set_train_examples(c.set);
    spec.set_workers(static_cast<uint32_t>(c.workers));
    spec.mutable_data()->mutable_batch()->set_global(c.global_batch);
    spec.mutable_regime()->set_kind(c.regime);
    if (c.steps > 0) {
      spec.mutable_length()->set_steps(c.steps);
    } else {
      spec.mutable_length()->set_epochs(c.epochs);
    }
    EXPECT_EQ(StepBatch(spec), c.step_batch) << c.claim;
    EXPECT_EQ(StepsPerEpoch(spec), c.steps_per_epoch) << c.claim;
    EXPECT_EQ(TotalExamples(spec), c.total_examples) << c.claim;
  }
}

TEST(JobLength, ALengthBeyondAllNumbersIsNotUndefined) {
  v1::JobSpec spec = Spec(v1::REGIME_ASYNC);
  spec.mutable_length()->set_epochs(1e300);
  EXPECT_EQ(TotalExamples(spec), 1000000000000000000u);
}

}  // namespace
}  // namespace weir
