// SPDX-License-Identifier: Apache-2.0
// Training loops of several workers over server objects and over gRPC, the coordinator's part
// played by the test: what they train together is what one process trains alone.
#include <gmock/gmock.h>

#include "tests/integration/trained_workers.h"
#include "tests/support/relative_distance.h"

namespace weir {
namespace {

v1::Optimizer Momentum() {
  v1::Optimizer optimizer;
  optimizer.mutable_learning_rate()->set_base(0.1);
  optimizer.mutable_sgd()->set_momentum(0.9);
  return optimizer;
}

v1::JobSpec Job(uint64_t global_batch) {
  v1::JobSpec spec = SmallJob("several", Momentum());
  spec.mutable_data()->mutable_batch()->set_global(global_batch);
  return spec;
}

// Over gRPC or over the server objects themselves.
class SeveralWorkersTraining : public testing::TestWithParam<bool> {
 protected:
  static std::vector<absl::StatusOr<Trained>> Train(v1::JobSpec spec, uint32_t workers) {
    spec.set_workers(workers);
    WorkersOptions options;
    options.job.over_grpc = GetParam();
    return TrainWorkers(spec, options);
  }

  static std::vector<float> TrainTogether(const v1::JobSpec& spec, uint32_t workers) {
    return ValuesOfAll(Train(spec, workers));
  }
};

TEST_P(SeveralWorkersTraining, OneWorkerEqualsALocalJobBitForBitInBothRegimes) {
  v1::JobSpec spec = Job(16);
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained local, TrainLocally(spec));
  EXPECT_EQ(TrainTogether(spec, 1), local.values);
  spec.mutable_regime()->set_kind(v1::REGIME_ASYNC);
  spec.mutable_length()->set_epochs(1);
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained async, TrainLocally(spec));
  EXPECT_EQ(TrainTogether(spec, 1), async.values);
}

// 200 examples in batches of 16: the last step of an epoch has 8, 4 for each.
TEST_P(SeveralWorkersTraining, TwoInSyncEqualOneProcessWithTwiceTheBatch) {
  const v1::JobSpec spec = Job(16);
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained alone, TrainLocally(spec));
  EXPECT_LE(RelativeDistance(TrainTogether(spec, 2), alone.values), kEqual);
}

// Batches of 15 are 8 and 7; the last step of an epoch has 5: 3 and 2. The mean is weighted by
// examples.
TEST_P(SeveralWorkersTraining, TwoInSyncEqualOneProcessAlsoWithUnequalBatches) {
  const v1::JobSpec spec = Job(15);
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained alone, TrainLocally(spec));
  EXPECT_LE(RelativeDistance(TrainTogether(spec, 2), alone.values), kEqual);
}

// Batches of 3 leave nothing for the fourth worker: it counts as absent.
TEST_P(SeveralWorkersTraining, AWorkerWithoutExamplesTakesPartInTheStep) {
  const v1::JobSpec spec = Job(3);
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained alone, TrainLocally(spec));
  EXPECT_LE(RelativeDistance(TrainTogether(spec, 4), alone.values), kEqual);
}

TEST_P(SeveralWorkersTraining, TwoDeterministicRunsAreEqualBitForBit) {
  v1::JobSpec spec = Job(48);
  spec.set_deterministic(true);
  const std::vector<float> first = TrainTogether(spec, 3);
  EXPECT_FALSE(first.empty());
  EXPECT_EQ(TrainTogether(spec, 3), first);
}

TEST_P(SeveralWorkersTraining, BatchNormStatisticsAreAveragedForTheEvaluation) {
  v1::JobSpec spec = Job(32);
  spec.mutable_model()->set_builtin("resnet");
  *spec.mutable_model()->mutable_options() = {};
  (*spec.mutable_model()->mutable_options())["width"] = "4";
  const std::vector<absl::StatusOr<Trained>> results = Train(spec, 2);
  for (const auto& result : results) {
    WEIR_ASSERT_OK(result);
    EXPECT_GT(result->summary.test_accuracy, 0.9);
  }
  // Weights are equal; statistics stay each replica's own.
  EXPECT_NE(results[0]->values, results[1]->values);
}

INSTANTIATE_TEST_SUITE_P(Servers, SeveralWorkersTraining, testing::Bool(),
                         [](const auto& info) { return info.param ? "OverGrpc" : "InProcess"; });

}  // namespace
}  // namespace weir
