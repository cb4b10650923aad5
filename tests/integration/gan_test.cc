// SPDX-License-Identifier: Apache-2.0
// examples/gan: two models, two optimizers, a loop of its own, a gradient penalty and batch norm
// over replicas train the same wherever the replicas are.
#include <gmock/gmock.h>

#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/support/idx_files.h"
#include "tests/support/process_cluster.h"
#include "tests/support/relative_distance.h"
#include "tests/support/saved_checkpoint.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"

namespace weir {
namespace {

using ::testing::Each;

constexpr absl::Duration kLong = absl::Minutes(2);

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

class Gan : public testing::Test {
 protected:
  void SetUp() override {
    WriteIdxFiles(folder_.path(), 128, 32);
    std::ofstream(folder_ / "job.yaml") << kJob;
    ProcessCluster::Options options;
    options.servers = 2;
    options.folder = folder_.path();
    WEIR_ASSERT_OK_AND_ASSIGN(cluster_, ProcessCluster::Start(options));
  }

  void Start(const std::string& name, std::vector<std::string> flags, int replicas, int workers) {
    flags.insert(flags.end(), {"--job", folder_ / "job.yaml", "--run-dir", folder_ / name, "--set",
                               absl::StrCat("replicas_per_worker=", replicas), "--set",
                               absl::StrCat("workers=", workers)});
    WEIR_ASSERT_OK(cluster_->StartProgram(name, "gan", flags));
  }

  void AwaitSuccess(const std::string& name) {
    WEIR_ASSERT_OK_AND_ASSIGN(const ExitState ended, cluster_->WaitForExit(name, kLong));
    ASSERT_TRUE(ended.ok()) << ended.ToString() << "\n" << cluster_->Output(name);
  }

  absl::StatusOr<SavedCheckpoint> TrainLocally(const std::string& name, int replicas) {
    Start(name, {"--local", "--data-dir", folder_ / (name + "-data")}, replicas, 1);
    AwaitSuccess(name);
    return ReadSavedCheckpoint(folder_ / (name + "-data"), "gan");
  }

  absl::StatusOr<SavedCheckpoint> TrainOnTwoWorkers(int replicas) {
    for (const char* name : {"a", "b"}) {
      Start(name, {"--coordinator", cluster_->coordinator()}, replicas, 2);
    }
    for (const char* name : {"a", "b"}) AwaitSuccess(name);
    return ReadSavedCheckpoint(folder_ / "coordinator", "gan");
  }

  TempFolder folder_;
  std::unique_ptr<ProcessCluster> cluster_;
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
