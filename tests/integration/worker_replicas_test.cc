// SPDX-License-Identifier: Apache-2.0
// Replicas of one's own in several worker processes.
#include <gmock/gmock.h>

#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/support/idx_files.h"
#include "tests/support/live_servers.h"
#include "tests/support/saved_checkpoint.h"
#include "tests/support/training_cluster.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr absl::Duration kLong = absl::Minutes(2);

constexpr char kJob[] = R"(name: probe
model: {replica: probe}
data:
  train: train-images-idx3-ubyte
  test: t10k-images-idx3-ubyte
  batch: {global: 8}
workers: 2
replicas_per_worker: 2
regime: sync
epochs: 1
)";

float ValueOf(const SavedCheckpoint& saved, const std::string& variable) {
  float value = 0;
  const std::string& weights = saved.variables.at(variable).weights;
  EXPECT_EQ(weights.size(), sizeof(value));
  std::memcpy(&value, weights.data(), std::min(weights.size(), sizeof(value)));
  return value;
}

class WorkerReplicas : public TrainingCluster {
 protected:
  void SetUp() override {
    WriteIdxFiles(folder_.path(), 64, 8);
    WriteJob(kJob);
    StartCluster(2, absl::Seconds(3));
  }

  void StartWorker(const std::string& name, const std::vector<std::string>& settings) {
    StartTrainer(name, "probe-replica", OnCluster(), settings);
  }

  // The first step of a worker that trains.
  uint64_t AwaitFirstStep(const std::string& name) {
    const auto line = cluster_->WaitForLine(name, "training attempt=", kLong);
    EXPECT_THAT(line, IsOk());
    if (!line.ok()) return 0;
    uint64_t step = 0;
    EXPECT_EQ(std::sscanf(std::strstr(line->c_str(), " step="), " step=%lu", &step), 1) << *line;
    return step;
  }

  // Beyond what it has printed by now.
  void AwaitAnotherStep(const std::string& name) {
    const size_t known = cluster_->Output(name).size();
    const auto stepped = [&] {
      return cluster_->Output(name).find("samples/s", known) != std::string::npos;
    };
    ASSERT_TRUE(cluster_->WaitUntil(stepped, kLong)) << cluster_->Output(name);
  }

  absl::StatusOr<SavedCheckpoint> TrainedWithLamb(const std::string& job,
                                                  std::vector<std::string> settings);
  void TrainWhileOneDiesAndOneComes(const std::string& step);
};

class UnequallyOften : public WorkerReplicas, public testing::WithParamInterface<std::string> {
 protected:
  // What was saved has counted every update.
  void ExpectCounted() {
    WEIR_ASSERT_OK(cluster_->WaitForLine("coordinator", "job ends", kLong));
    WEIR_ASSERT_OK_AND_ASSIGN(const auto saved,
                              ReadSavedCheckpoint(folder_ / "coordinator", "probe"));
    const uint64_t steps = saved.manifest.step();
    const bool in_turns = GetParam() == "in-turns";
    const uint64_t seldom = in_turns ? steps / 6 : steps;
    const uint64_t often = in_turns ? steps - seldom : 5 * steps;
    EXPECT_EQ(ValueOf(saved, "often/value"), -static_cast<float>(often));
    EXPECT_EQ(ValueOf(saved, "seldom/value"), -static_cast<float>(seldom));
  }
};

// One optimizer is updated five times for every time of the other, within a step or in steps of its
// own, so that where the groups stand does not follow from the step. Stopped when both train.
TEST_P(UnequallyOften, AJoinerTakesUpEachGroupWhereItStands) {
  const std::vector<std::string> settings = {"min_workers=1", "epochs=100000", "log_every=1",
                                             absl::StrCat("model.options.step=", GetParam())};
  StartWorker("a", settings);
  EXPECT_EQ(AwaitFirstStep("a"), 0u);
  WEIR_ASSERT_OK(cluster_->WaitForLine("a", "samples/s", kLong));
  StartWorker("b", settings);
  EXPECT_GT(AwaitFirstStep("b"), 0u);
  WEIR_ASSERT_OK(cluster_->WaitForLine("b", "samples/s", kLong));
  Stop("probe");
  for (const char* name : {"a", "b"}) AwaitSuccess(name);
  ExpectCounted();
}

TEST_P(UnequallyOften, AreSavedAtTheEndOfTheJob) {
  const std::vector<std::string> settings = {absl::StrCat("model.options.step=", GetParam()),
                                             "epochs=4"};
  for (const char* name : {"a", "b"}) StartWorker(name, settings);
  for (const char* name : {"a", "b"}) AwaitSuccess(name);
  ExpectCounted();
}

INSTANTIATE_TEST_SUITE_P(Steps, UnequallyOften, testing::Values("five-to-one", "in-turns"),
                         [](const auto& info) {
                           return info.param == "in-turns" ? "InTurns" : "FiveToOne";
                         });

// What they bring and must get is in probe_replica_main.cc.
TEST_F(WorkerReplicas, SpeakToEachOtherAcrossProcesses) {
  for (const char* name : {"a", "b"}) StartWorker(name, {"model.options.step=collectives"});
  for (const char* name : {"a", "b"}) AwaitSuccess(name);
}

TEST_F(WorkerReplicas, ThatCallDifferentThingsAreAllToldWhoCallsWhat) {
  for (const char* name : {"a", "b"}) StartWorker(name, {"model.options.step=mismatch"});
  std::string output;
  for (const char* name : {"a", "b"}) {
    WEIR_ASSERT_OK_AND_ASSIGN(const ExitState ended, cluster_->WaitForExit(name, kLong));
    EXPECT_EQ(ended.code, 3) << ended.ToString();
    absl::StrAppend(&output, cluster_->Output(name), "\n");
  }
  const std::vector<std::string> lines = absl::StrSplit(output, '\n');
  for (int replica = 0; replica < 4; ++replica) {
    EXPECT_THAT(lines, Contains(AllOf(
                           StartsWith(absl::StrCat("replica ", replica, ": ")), HasSubstr("rank 0"),
                           HasSubstr("rank 1"), HasSubstr("AllReduce(SUM) \"loss\" f32[3]"),
                           HasSubstr("AllGather \"hits\" i64[1]"), HasSubstr("of step 2"))))
        << output;
  }
}

// Dropout draws from the generator of the process, which both replicas share in the first shape.
TEST_F(WorkerReplicas, DeterministicOnesAreEqualBitForBitInOneProcessAndInTwo) {
  const auto trained = [&](const std::string& job, int workers, int seed) {
    const std::vector<std::string> settings = {"model.options.step=dropout",
                                               "deterministic=true",
                                               "name=" + job,
                                               absl::StrCat("seed=", seed),
                                               absl::StrCat("workers=", workers),
                                               absl::StrCat("replicas_per_worker=", 2 / workers)};
    for (int i = 0; i < workers; ++i) StartWorker(absl::StrCat(job, i), settings);
    for (int i = 0; i < workers; ++i) AwaitSuccess(absl::StrCat(job, i));
    const auto saved = ReadSavedCheckpoint(folder_ / "coordinator", job);
    EXPECT_THAT(saved, IsOk());
    return saved.ok() ? ValueOf(*saved, "often/value") : 0;
  };
  const float one_process = trained("one", 1, 7);
  EXPECT_NE(one_process, 0);
  EXPECT_EQ(trained("two", 2, 7), one_process);
  EXPECT_NE(trained("other", 2, 8), one_process);
}

// What a job of two workers with a local optimizer saves.
absl::StatusOr<SavedCheckpoint> WorkerReplicas::TrainedWithLamb(const std::string& job,
                                                                std::vector<std::string> settings) {
  settings.insert(settings.end(), {"name=" + job, "model.options.step=lamb", "deterministic=true"});
  for (const char* name : {"a", "b"}) StartWorker(name, settings);
  for (const char* name : {"a", "b"}) AwaitSuccess(name);
  return ReadSavedCheckpoint(folder_ / "coordinator", job);
}

TEST_F(WorkerReplicas, WithALocalOptimizerThatGoOnOnOtherServersEqualThoseThatWereNotInterrupted) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto whole, TrainedWithLamb("whole", {"epochs=4"}));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto half, TrainedWithLamb("job", {"epochs=2"}));
  EXPECT_EQ(half.manifest.step(), 16u);
  EXPECT_EQ(half.manifest.parts_size(), 2);
  WEIR_ASSERT_OK(cluster_->StartServer(2));
  AwaitLiveServers(*cluster_, 3, kLong);
  WEIR_ASSERT_OK_AND_ASSIGN(const auto on_three,
                            TrainedWithLamb("job", {"epochs=4", "resume=latest"}));
  EXPECT_EQ(on_three.manifest.parts_size(), 3);
  EXPECT_EQ(Difference(on_three, whole), "");
  EXPECT_NE(on_three.variables.at("lamb/state/net/weight/mean").weights,
            half.variables.at("lamb/state/net/weight/mean").weights);
}

// It is killed when all have stepped and it has pushed nothing: no next step brings it.
TEST_F(WorkerReplicas, WithALocalOptimizerAreSavedWholeWhereTheOneThatTellsItDiesInTheLastStep) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto whole, TrainedWithLamb("whole", {"epochs=2"}));
  const std::vector<std::string> settings = {"name=job", "model.options.step=lamb",
                                             "model.options.dies_in=15", "deterministic=true",
                                             "epochs=2"};
  StartWorker("lowest", settings);
  WEIR_ASSERT_OK(cluster_->WaitForLine("coordinator", "job=job rank=0", kLong));
  StartWorker("other", settings);
  WEIR_ASSERT_OK_AND_ASSIGN(const ExitState ended, cluster_->WaitForExit("lowest", kLong));
  EXPECT_EQ(ended.signal, SIGKILL) << ended.ToString() << "\n" << cluster_->Output("lowest");
  AwaitSuccess("other");
  WEIR_ASSERT_OK_AND_ASSIGN(const auto saved, ReadSavedCheckpoint(folder_ / "coordinator", "job"));
  EXPECT_EQ(saved.manifest.step(), 16u);
  for (const auto& [name, variable] : whole.variables) {
    EXPECT_EQ(saved.variables.at(name).weights, variable.weights) << name;
  }
}

// The one that stays is in the middle of a step, and goes on without the other; who comes in its
// place is one of them again.
void WorkerReplicas::TrainWhileOneDiesAndOneComes(const std::string& step) {
  const std::vector<std::string> settings = {"min_workers=1", "epochs=100000", "log_every=1",
                                             "model.options.step=" + step};
  for (const char* name : {"a", "b"}) {
    StartWorker(name, settings);
    WEIR_ASSERT_OK(cluster_->WaitForLine(name, "samples/s", kLong));
  }
  WEIR_ASSERT_OK(cluster_->WaitForLine("a", "samples/s", kLong));
  // The lowest rank, which speaks for all where one does.
  WEIR_ASSERT_OK(cluster_->Kill("a"));
  AwaitAnotherStep("b");
  StartWorker("c", settings);
  WEIR_ASSERT_OK(cluster_->WaitForLine("c", "samples/s", kLong));
  AwaitAnotherStep("b");
  Stop("probe");
  for (const char* name : {"b", "c"}) AwaitSuccess(name);
}

TEST_F(WorkerReplicas, OneThatDiesIsLeftOutAndOneThatComesIsTakenIn) {
  TrainWhileOneDiesAndOneComes("collectives");
}

// Each of their steps begins and ends with a look at the others' weights.
TEST_F(WorkerReplicas, WithALocalOptimizerStayEqualWhileOneDiesAndOneComes) {
  TrainWhileOneDiesAndOneComes("lamb");
}

}  // namespace
}  // namespace weir
