// SPDX-License-Identifier: Apache-2.0
// The stock worker on a cluster of processes: what is trained there is what one process trains.
// Compared is what the last checkpoint holds: weights, optimizer slots, versions and counts.
#include <gmock/gmock.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/support/idx_files.h"
#include "tests/support/live_servers.h"
#include "tests/support/program.h"
#include "tests/support/relative_distance.h"
#include "tests/support/saved_checkpoint.h"
#include "tests/support/training_cluster.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Minutes(2);

// 200 examples: an epoch has 12 batches of 16 and one of 8. The first layer has two shards, one
// with two chunks.
constexpr char kJob[] = R"(name: tiny
model: {builtin: mlp, options: {hidden: 1200}}
data:
  train: train-images-idx3-ubyte
  test: t10k-images-idx3-ubyte
  batch: {global: 16}
regime: sync
optimizers: {sgd: {learning_rate: 0.02, momentum: 0.9}}
epochs: 3
seed: 7
)";

constexpr char kAdamWithACosineAfterAWarmUp[] =
    "optimizers={adam: {learning_rate: {cosine: {from: 0.01, to: 0.0001, over: 3 epochs, "
    "warm_up_epochs: 1}}}}";

using Settings = std::vector<std::string>;

Settings With(Settings settings, const std::string& one_more) {
  settings.push_back(one_more);
  return settings;
}

class ClusterTraining : public TrainingCluster {
 protected:
  static void SetUpTestSuite() { UseOneThread(); }

  void SetUp() override {
    WriteIdxFiles(folder_.path(), 200, 40);
    WriteJob(kJob);
  }

  void StartWorker(const std::string& name, const Settings& settings) {
    StartTrainer(name, "weir-worker", OnCluster(), settings);
  }

  // Trains a job to its end with so many workers; what it saved.
  absl::StatusOr<SavedCheckpoint> Train(const std::string& job, int workers, Settings settings) {
    settings.insert(settings.end(), {"name=" + job, absl::StrCat("workers=", workers)});
    for (int i = 0; i < workers; ++i) {
      StartWorker(absl::StrCat("worker-", i), settings);
    }
    for (int i = 0; i < workers; ++i) AwaitSuccess(absl::StrCat("worker-", i));
    return ReadSavedCheckpoint(folder_ / "coordinator", job);
  }

  absl::StatusOr<SavedCheckpoint> TrainLocally(const Settings& settings) {
    StartTrainer("local", "weir-worker", {"--local", "--data-dir", folder_ / "local"}, settings);
    AwaitSuccess("local");
    return ReadSavedCheckpoint(folder_ / "local", "tiny");
  }

  // What a stopped job has saved, of steps that are whole epochs. Returns their number.
  uint64_t ExpectTrainedAsByOneProcess(const Settings& settings) {
    EXPECT_THAT(cluster_->WaitForLine("coordinator", "job ends", kLong), IsOk());
    const auto saved = ReadSavedCheckpoint(folder_ / "coordinator", "tiny");
    EXPECT_THAT(saved, IsOk());
    if (!saved.ok()) return 0;
    const uint64_t steps = saved->manifest.step();
    EXPECT_EQ(saved->manifest.examples(), 200 * steps);
    const auto alone = TrainLocally(With(settings, absl::StrCat("steps=", steps)));
    EXPECT_THAT(alone, IsOk());
    if (alone.ok()) {
      EXPECT_LE(RelativeDistance(saved->Weights(), alone->Weights()), kEqual);
    }
    return steps;
  }
};

// Servers that hold a part of a checkpoint.
int Holders(const SavedCheckpoint& saved) {
  return saved.manifest.parts_size();
}

TEST_F(ClusterTraining, OneWorkerOnServersEqualsALocalJobBitForBitWithMomentum) {
  StartCluster(2);
  WEIR_ASSERT_OK_AND_ASSIGN(const auto local, TrainLocally({}));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto remote, Train("remote", 1, {}));
  EXPECT_EQ(Difference(remote, local), "");
  EXPECT_EQ(Holders(remote), 2);
  EXPECT_EQ(remote.manifest.step(), 39u);
  EXPECT_EQ(remote.manifest.examples(), 600u);
}

TEST_F(ClusterTraining, OneWorkerOnServersEqualsALocalJobBitForBitWithAdamAndACosine) {
  StartCluster(2);
  const Settings settings = {kAdamWithACosineAfterAWarmUp};
  WEIR_ASSERT_OK_AND_ASSIGN(const auto local, TrainLocally(settings));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto remote, Train("remote", 1, settings));
  EXPECT_EQ(Difference(remote, local), "");
  EXPECT_EQ(remote.manifest.step(), 39u);
}

TEST_F(ClusterTraining, OneWorkerOnServersEqualsALocalJobBitForBitWithAdamW) {
  StartCluster(2);
  const Settings settings = {"optimizers={adamw: {learning_rate: 0.01, weight_decay: 0.1}}"};
  WEIR_ASSERT_OK_AND_ASSIGN(const auto local, TrainLocally(settings));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto remote, Train("remote", 1, settings));
  EXPECT_EQ(Difference(remote, local), "");
  EXPECT_EQ(remote.manifest.step(), 39u);
}

TEST_F(ClusterTraining, TwoWorkersInSyncEqualOneProcessWithTwiceTheBatch) {
  StartCluster(2);
  WEIR_ASSERT_OK_AND_ASSIGN(const auto alone, TrainLocally({"data.batch.per_replica=16"}));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto both, Train("both", 2, {"data.batch.per_replica=8"}));
  EXPECT_LE(RelativeDistance(both.Weights(), alone.Weights()), kEqual);
  EXPECT_EQ(both.manifest.step(), 39u);
  EXPECT_EQ(both.manifest.examples(), 600u);
}

// Of 15 one has 8 and one 7; of the 5 that end an epoch 3 and 2.
TEST_F(ClusterTraining, TwoWorkersInSyncEqualOneProcessAlsoWithUnequalBatches) {
  StartCluster(2);
  const Settings settings = {"data.batch.global=15"};
  WEIR_ASSERT_OK_AND_ASSIGN(const auto alone, TrainLocally(settings));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto both, Train("both", 2, settings));
  EXPECT_LE(RelativeDistance(both.Weights(), alone.Weights()), kEqual);
  EXPECT_EQ(both.manifest.step(), 42u);
}

// Three, because the sum of two is the same in both orders.
TEST_F(ClusterTraining, TwoDeterministicRunsAreEqualBitForBit) {
  StartCluster(2);
  const Settings settings = {"deterministic=true", "data.batch.global=48", "epochs=6"};
  WEIR_ASSERT_OK_AND_ASSIGN(const auto first, Train("first", 3, settings));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto second, Train("second", 3, settings));
  EXPECT_EQ(Difference(first, second), "");
  EXPECT_EQ(first.manifest.step(), 30u);
}

TEST_F(ClusterTraining, OneWorkerInAsyncEqualsOneInSyncBitForBit) {
  StartCluster(2);
  WEIR_ASSERT_OK_AND_ASSIGN(const auto sync, Train("sync", 1, {}));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto async, Train("async", 1, {"regime=async"}));
  EXPECT_EQ(Difference(async, sync), "");
  EXPECT_EQ(async.manifest.step(), 39u);
}

SavedCheckpoint BeforeTheLastState(SavedCheckpoint saved) {
  for (auto& [name, variable] : saved.variables) {
    if (variable.is_parameter) continue;
    for (uint64_t& version : variable.versions) --version;
  }
  return saved;
}

// Batch norm's statistics, in f32 and i64, are saved beside the parameters.
TEST_F(ClusterTraining, ACheckpointOfTwoServersIsRestoredBitForBitOnThreeAndOnOne) {
  StartCluster(2, absl::Seconds(1));
  const Settings settings = {"model={builtin: resnet, options: {depth: 8, width: 4}}",
                             kAdamWithACosineAfterAWarmUp, "steps=20"};
  WEIR_ASSERT_OK_AND_ASSIGN(const auto two, Train("job", 1, settings));
  EXPECT_EQ(Holders(two), 2);
  // Nothing is left to train: what is saved is what was restored. But the worker pushes its state
  // once more at its end.
  const Settings restored = With(settings, "resume=" + two.manifest.id());
  WEIR_ASSERT_OK(cluster_->StartServer(2));
  AwaitLiveServers(*cluster_, 3, kLong);
  WEIR_ASSERT_OK_AND_ASSIGN(const auto three, Train("job", 1, restored));
  EXPECT_EQ(Difference(BeforeTheLastState(three), two), "");
  EXPECT_EQ(Holders(three), 3);
  WEIR_ASSERT_OK(cluster_->Kill("server-1"));
  WEIR_ASSERT_OK(cluster_->Kill("server-2"));
  AwaitLiveServers(*cluster_, 1, kLong);
  WEIR_ASSERT_OK_AND_ASSIGN(const auto one, Train("job", 1, restored));
  EXPECT_EQ(Difference(BeforeTheLastState(one), two), "");
  EXPECT_EQ(Holders(one), 1);
  EXPECT_NE(one.manifest.id(), three.manifest.id());
}

TEST_F(ClusterTraining, AJobThatGoesOnOnOtherServersEqualsOneThatWasNotInterrupted) {
  StartCluster(2);
  const Settings settings = {kAdamWithACosineAfterAWarmUp, "deterministic=true"};
  WEIR_ASSERT_OK_AND_ASSIGN(const auto whole, Train("whole", 2, settings));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto half, Train("job", 2, With(settings, "steps=20")));
  EXPECT_EQ(half.manifest.step(), 20u);
  WEIR_ASSERT_OK(cluster_->StartServer(2));
  AwaitLiveServers(*cluster_, 3, kLong);
  const Settings resumed = With(settings, "resume=latest");
  WEIR_ASSERT_OK_AND_ASSIGN(const auto on_three, Train("job", 2, resumed));
  EXPECT_EQ(Difference(on_three, whole), "");
  EXPECT_EQ(Holders(on_three), 3);
}

// Every example of a step counts once: the old member's share is what the new one does not take.
TEST_F(ClusterTraining, AWorkerThatJoinsLaterDoesNotChangeWhatIsTrained) {
  StartCluster(2);
  const Settings settings = {"data.batch.global=200", "log_every=1"};
  Settings endless = With(With(settings, "workers=2"), "epochs=100000");
  endless.push_back("min_workers=1");
  StartWorker("a", endless);
  WEIR_ASSERT_OK(cluster_->WaitForLine("a", "samples/s", kLong));
  StartWorker("b", endless);
  WEIR_ASSERT_OK(cluster_->WaitForLine("b", "samples/s", kLong));
  Stop("tiny");
  for (const char* worker : {"a", "b"}) AwaitSuccess(worker);
  ExpectTrainedAsByOneProcess(settings);
}

// What both have trained when they are stopped is what one process trains in so many steps.
TEST_F(ClusterTraining, AStopEndsBothWorkersBeforeTheSameStepWithACheckpoint) {
  StartCluster(2);
  const Settings settings = {"data.batch.global=200", "log_every=1"};
  const Settings endless = With(With(settings, "workers=2"), "epochs=100000");
  for (const char* worker : {"a", "b"}) {
    StartWorker(worker, endless);
  }
  for (const char* worker : {"a", "b"}) {
    WEIR_ASSERT_OK(cluster_->WaitForLine(worker, "samples/s", kLong));
  }
  Stop("tiny");
  for (const char* worker : {"a", "b"}) AwaitSuccess(worker);
  const uint64_t steps = ExpectTrainedAsByOneProcess(settings);
  for (const char* worker : {"a", "b"}) {
    EXPECT_THAT(cluster_->Output(worker),
                HasSubstr(absl::StrCat("stopped by command step=", steps)));
  }
}

}  // namespace
}  // namespace weir
