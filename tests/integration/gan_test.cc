// SPDX-License-Identifier: Apache-2.0
// examples/gan: two models, two optimizers, a loop of its own, a gradient penalty and batch norm
// over replicas train the same wherever the replicas are.
#include <gmock/gmock.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/support/idx_files.h"
#include "tests/support/relative_distance.h"
#include "tests/support/saved_checkpoint.h"
#include "tests/support/training_cluster.h"

namespace weir {
namespace {

using ::testing::Each;

// 24 steps: the discriminator's 20, the generator's 4.
constexpr char kJob[] = R"(name: gan
model: {replica: gan, options: {width: 16}}
data:
  train: train-images-idx3-ubyte
  test: t10k-images-idx3-ubyte
  batch: {global: 18}
regime: sync
steps: 24
deterministic: true
)";
constexpr uint64_t kDiscriminatorSteps = 20;
constexpr uint64_t kGeneratorSteps = 4;

class Gan : public TrainingCluster {
 protected:
  void SetUp() override {
    WriteIdxFiles(folder_.path(), 128, 32);
    WriteJob(kJob);
    StartCluster(2);
  }

  void Start(const std::string& name, const std::vector<std::string>& flags, int replicas,
             int workers) {
    StartTrainer(
        name, "gan", flags,
        {absl::StrCat("replicas_per_worker=", replicas), absl::StrCat("workers=", workers)});
  }

  absl::StatusOr<SavedCheckpoint> TrainLocally(const std::string& name, int replicas) {
    Start(name, {"--local", "--data-dir", folder_ / (name + "-data")}, replicas, 1);
    AwaitSuccess(name);
    return ReadSavedCheckpoint(folder_ / (name + "-data"), "gan");
  }

  absl::StatusOr<SavedCheckpoint> TrainOnTwoWorkers(int replicas) {
    for (const char* name : {"a", "b"}) Start(name, OnCluster(), replicas, 2);
    for (const char* name : {"a", "b"}) AwaitSuccess(name);
    return ReadSavedCheckpoint(folder_ / "coordinator", "gan");
  }
};

// 18 examples: parts of 5, 5, 4 and 4.
TEST_F(Gan, OnTwoWorkersOfTwoReplicasHasTheNumbersOfFourReplicasInOneProcess) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto four, TrainLocally("four", 4));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto two_by_two, TrainOnTwoWorkers(2));
  EXPECT_LE(RelativeDistance(two_by_two.Weights(), four.Weights()), kEqual);
  EXPECT_LE(RelativeDistance(two_by_two.Slots(), four.Slots()), kEqual);
}

// A step of one optimizer leaves the other's parameters as they are, whatever gradients it filled.
TEST_F(Gan, UpdatesEachModelInItsOwnStepsOnly) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto saved, TrainLocally("local", 2));
  for (const auto& [name, variable] : saved.variables) {
    if (!variable.is_parameter) continue;
    const bool is_generators = absl::StartsWith(name, "generator/");
    EXPECT_THAT(variable.versions, Each(is_generators ? kGeneratorSteps : kDiscriminatorSteps))
        << name;
  }
}

TEST_F(Gan, TrainsTwiceTheSameBitForBit) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto first, TrainLocally("first", 4));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto again, TrainLocally("again", 4));
  EXPECT_EQ(Difference(again, first), "");
}

}  // namespace
}  // namespace weir
