// SPDX-License-Identifier: Apache-2.0
// examples/pendulum: learners fed by actors in other processes, some of which die.
#include <gmock/gmock.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "tests/support/training_cluster.h"

namespace weir {
namespace {

constexpr absl::Duration kLong = absl::Minutes(4);
// An untrained network has -1000 and less, one that keeps the pendulum up from wherever it hangs
// about -150.
constexpr double kLearned = -400;
constexpr double kUntrained = -700;

constexpr char kJob[] = R"(name: pendulum
model: {replica: pendulum}
data: {batch: {per_replica: 64}}
workers: 2
regime: sync
steps: 10000000
checkpoint: {at_end: false}
)";

class PendulumTest : public TrainingCluster {
 protected:
  void SetUp() override {
    WriteJob(kJob);
    StartCluster(1, absl::Seconds(2));
  }

  void StartLearner(const std::string& name) {
    StartTrainer(name, "pendulum", OnCluster(), {"model.options.replay=" + folder_.path()});
  }
  void StartActor(const std::string& name, int seed) {
    WEIR_ASSERT_OK(cluster_->StartProgram(
        name, "pendulum_actor",
        {cluster_->coordinator(), "pendulum", folder_.path(), absl::StrCat(seed)}));
  }

  // The newest mean return that an actor has printed; 1: none.
  double MeanReturn(const std::string& actor) const {
    const std::string output = cluster_->Output(actor);
    const std::string before = "greedy returns ";
    const size_t at = output.rfind(before);
    return at == std::string::npos ? 1 : std::atof(output.c_str() + at + before.size());
  }

  void AwaitSteps(const std::string& learner) {
    WEIR_ASSERT_OK(cluster_->WaitForLine(learner, "samples/s", kLong));
  }
};

TEST_F(PendulumTest, LearnsThoughAnActorAndOneOfTwoLearnersDie) {
  StartLearner("a");
  StartLearner("b");
  StartActor("one", 1);
  WEIR_ASSERT_OK(cluster_->WaitForLine("one", "untrained", kLong));
  EXPECT_LT(MeanReturn("one"), kUntrained);
  StartActor("two", 2);
  WEIR_ASSERT_OK(cluster_->WaitForLine("two", "untrained", kLong));
  for (const char* learner : {"a", "b"}) AwaitSteps(learner);
  WEIR_ASSERT_OK(cluster_->Kill("two"));
  WEIR_ASSERT_OK(cluster_->Kill("b"));
  EXPECT_LT(MeanReturn("one"), kUntrained);  // learned by those that are left
  ASSERT_TRUE(cluster_->WaitUntil(
      [&] {
        const double mean = MeanReturn("one");
        return mean > kLearned && mean <= 0;
      },
      kLong))
      << cluster_->Output("one") << cluster_->Output("a");
  Stop("pendulum");
  for (const char* name : {"a", "one"}) AwaitSuccess(name, kLong);
}

}  // namespace
}  // namespace weir
