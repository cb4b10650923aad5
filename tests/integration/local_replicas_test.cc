// SPDX-License-Identifier: Apache-2.0
// Whole jobs of one process with several replicas: what they train is what one trains on the joined
// batch. Equal means a relative L2 distance of at most 1e-5 over all parameters.
#include <gmock/gmock.h>

#include "tests/integration/small_training.h"
#include "tests/support/relative_distance.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

v1::JobSpec Job(uint64_t global_batch, uint32_t replicas) {
  v1::Optimizer optimizer;
  optimizer.mutable_learning_rate()->set_base(0.1);
  optimizer.mutable_sgd()->set_momentum(0.9);
  v1::JobSpec spec = SmallJob("replicas", optimizer);
  spec.mutable_data()->mutable_batch()->set_global(global_batch);
  spec.set_replicas_per_worker(replicas);
  return spec;
}

// 200 examples in steps of 16: the last one of an epoch has 8, 2 for each of four.
TEST(LocalReplicas, FourTrainWhatOneTrainsOnTheJoinedBatch) {
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained one, TrainLocally(Job(16, 1)));
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained four, TrainLocally(Job(16, 4)));
  EXPECT_LE(RelativeDistance(four.values, one.values), kEqual);
  EXPECT_EQ(four.summary.steps, one.summary.steps);
  EXPECT_EQ(four.summary.examples, one.summary.examples);
  EXPECT_NEAR(four.summary.train_loss, one.summary.train_loss, 1e-4);
  EXPECT_EQ(four.summary.test_accuracy, one.summary.test_accuracy);
  EXPECT_NEAR(four.summary.test_loss, one.summary.test_loss, 1e-5);
}

TEST(LocalReplicas, ClipTheGradientOfTheJoinedBatch) {
  for (const bool by_value : {false, true}) {
    v1::JobSpec spec = Job(15, 1);
    v1::GradientClip& clip = *(*spec.mutable_optimizers())["main"].mutable_clip();
    by_value ? clip.set_value(0.01) : clip.set_global_norm(0.3);
    WEIR_ASSERT_OK_AND_ASSIGN(const Trained one, TrainLocally(spec));
    spec.set_replicas_per_worker(4);
    WEIR_ASSERT_OK_AND_ASSIGN(const Trained four, TrainLocally(spec));
    EXPECT_LE(RelativeDistance(four.values, one.values), kEqual);
    WEIR_ASSERT_OK_AND_ASSIGN(const Trained not_clipped, TrainLocally(Job(15, 1)));
    EXPECT_GT(RelativeDistance(one.values, not_clipped.values), 1e-3);
  }
}

// 15 over two are 8 and 7; 3 over four leave nothing for the last.
TEST(LocalReplicas, UnequalAndEmptyPartsCountAsTheirExamples) {
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained fifteen, TrainLocally(Job(15, 1)));
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained two, TrainLocally(Job(15, 2)));
  EXPECT_LE(RelativeDistance(two.values, fifteen.values), kEqual);
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained three, TrainLocally(Job(3, 1)));
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained four, TrainLocally(Job(3, 4)));
  EXPECT_LE(RelativeDistance(four.values, three.values), kEqual);
}

TEST(LocalReplicas, OfAResidualNetworkTrainAndAverageTheirStatisticsAlsoWithoutExamples) {
  v1::JobSpec spec = Job(3, 4);
  spec.mutable_model()->set_builtin("resnet");
  *spec.mutable_model()->mutable_options() = {};
  spec.mutable_model()->mutable_options()->insert({"width", "4"});
  spec.mutable_length()->set_steps(4);
  WEIR_ASSERT_OK(TrainLocally(spec));
  spec.mutable_data()->mutable_batch()->set_global(32);
  spec.mutable_length()->set_steps(50);
  spec.mutable_evaluate()->mutable_every()->set_epochs(1);
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained trained, TrainLocally(spec));
  EXPECT_GT(trained.summary.test_accuracy, 0.9);
}

TEST(LocalReplicas, TwoRunsAreEqualBitForBit) {
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained first, TrainLocally(Job(16, 4)));
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained again, TrainLocally(Job(16, 4)));
  EXPECT_EQ(first.values, again.values);
}

TEST(LocalReplicas, TrainInAsyncToo) {
  v1::JobSpec spec = Job(16, 4);
  spec.mutable_regime()->set_kind(v1::REGIME_ASYNC);
  spec.mutable_length()->set_epochs(4);
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained four, TrainLocally(spec));
  spec.set_replicas_per_worker(1);
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained one, TrainLocally(spec));
  EXPECT_LE(RelativeDistance(four.values, one.values), kEqual);
}

}  // namespace
}  // namespace weir
