// SPDX-License-Identifier: Apache-2.0
// Programs of one's own whose replicas bring their input, in several processes: what they bring is
// in input_probe_main.cc.
#include <gmock/gmock.h>
#include <signal.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tests/support/saved_checkpoint.h"
#include "tests/support/training_cluster.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Minutes(2);
constexpr absl::Duration kSoon = absl::Seconds(10);

constexpr char kJob[] = R"(name: probe
model: {replica: probe}
data: {batch: {global: 8}}
workers: 2
regime: sync
)";

class OwnInput : public TrainingCluster {
 protected:
  void SetUp() override {
    WriteJob(kJob);
    StartCluster(1, absl::Seconds(3));
  }

  void StartWorker(const std::string& name, const std::vector<std::string>& settings, int rank) {
    std::vector<std::string> flags = OnCluster();
    flags.insert(flags.end(), {"--rank", absl::StrCat(rank)});
    StartTrainer(name, "input-probe", flags, settings);
  }

  int ExitOf(const std::string& name) {
    const absl::StatusOr<ExitState> ended = cluster_->WaitForExit(name, kLong);
    EXPECT_THAT(ended, IsOk());
    return ended.ok() ? ended->code : -1;
  }

  float SavedValue(const std::string& job) {
    const auto saved = ReadSavedCheckpoint(folder_ / "coordinator", job);
    EXPECT_THAT(saved, IsOk());
    float value = 0;
    if (saved.ok()) {
      std::memcpy(&value, saved->variables.at("sum/value").weights.data(), sizeof(value));
    }
    return value;
  }

  nlohmann::json Summary() const { return nlohmann::json::parse(folder_.Read("run/summary.json")); }
};

// The numbers from 0 to 63 once: the means of 8 of them at a time sum up to 64 * 63 / 2 / 8 = 252,
// of 4 at a time to twice as much. Those of the evaluation are 0, 1, 2.
TEST_F(OwnInput, EachExampleOfADatasetCountsOnceInEveryRegimeAndShape) {
  const auto trained = [&](const std::string& name, std::vector<std::string> settings) {
    settings.insert(settings.end(), {"name=" + name, "model.options.input=dataset",
                                     "data.examples=64", "epochs=1"});
    for (const char* rank : {"0", "1"}) StartWorker(name + rank, settings, rank[0] - '0');
    for (const char* rank : {"0", "1"}) EXPECT_EQ(ExitOf(name + rank), 0);
    return SavedValue(name);
  };
  EXPECT_EQ(trained("sync", {}), -252);
  EXPECT_EQ(Summary()["test_accuracy"], 1);
  EXPECT_EQ(trained("four", {"replicas_per_worker=2", "model.options.prefetch=2"}), -252);
  EXPECT_EQ(trained("async", {"regime=async", "model.options.prefetch=1"}), -504);
}

// In steps of 4 an epoch takes 504 off, exactly if each number is in one whole step of a group. The
// first run stops somewhere in the middle, with each group in ranges of its own.
TEST_F(OwnInput, WhatSyncGroupsHaveDoneWhenTheyAreStoppedIsNotDoneAgain) {
  std::vector<std::string> settings = {
      "model.options.input=dataset", "data.examples=64", "epochs=400", "workers=4",
      "regime.sync_group_size=2",    "log_every=20"};
  for (int rank = 0; rank < 4; ++rank) StartWorker(absl::StrCat("a", rank), settings, rank);
  for (int rank = 0; rank < 4; ++rank) {
    WEIR_ASSERT_OK(cluster_->WaitForLine(absl::StrCat("a", rank), "samples/s", kLong));
  }
  WEIR_ASSERT_OK(cluster_->StartProgram(
      "stop", "weir", {"stop", "probe", "--coordinator", cluster_->coordinator()}));
  for (const char* name : {"stop", "a0", "a1", "a2", "a3"}) EXPECT_EQ(ExitOf(name), 0);
  EXPECT_THAT(cluster_->Output("a0"), HasSubstr("stopped by command"));
  EXPECT_LT(SavedValue("probe"), 0);
  EXPECT_GT(SavedValue("probe"), 400 * -504);
  settings.push_back("resume=latest");
  for (int rank = 0; rank < 4; ++rank) StartWorker(absl::StrCat("b", rank), settings, rank);
  for (const char* name : {"b0", "b1", "b2", "b3"}) EXPECT_EQ(ExitOf(name), 0);
  EXPECT_EQ(SavedValue("probe"), 400 * -504);
}

TEST_F(OwnInput, AWorkerWhoseSourceEndsLeavesAndTheOtherFinishes) {
  const std::vector<std::string> settings = {"model.options.input=ends", "steps=40"};
  StartWorker("stays", settings, 0);
  StartWorker("leaves", settings, 1);
  EXPECT_EQ(ExitOf("leaves"), 0);
  EXPECT_THAT(cluster_->Output("leaves"),
              HasSubstr("input pipeline 1, replica 1: the source has ended; step=5"));
  EXPECT_EQ(ExitOf("stays"), 0);
  EXPECT_EQ(Summary()["steps"], 40);
  EXPECT_EQ(SavedValue("probe"), -80);
  EXPECT_THAT(cluster_->Output("stays"), HasSubstr("it begins anew after a restart"));
}

// None of them knows by itself whether the others leave too.
TEST_F(OwnInput, WhereTheSourcesOfAllEndAtOneStepTheLastWorkerEndsTheJob) {
  const std::vector<std::string> settings = {"model.options.input=all-end", "steps=40"};
  for (int rank : {0, 1}) StartWorker(absl::StrCat("w", rank), settings, rank);
  for (const char* name : {"w0", "w1"}) EXPECT_EQ(ExitOf(name), 0);
  WEIR_ASSERT_OK_AND_ASSIGN(const std::string end,
                            cluster_->WaitForLine("coordinator", "job ends", kSoon));
  EXPECT_THAT(end, HasSubstr("state=JOB_STATE_FINISHED"));
  EXPECT_EQ(Summary()["steps"], 5);
  EXPECT_EQ(SavedValue("probe"), -10);
}

TEST_F(OwnInput, AnExceptionOfACallableNamesPipelineAndReplica) {
  const std::vector<std::string> settings = {"model.options.input=throws", "steps=40"};
  StartWorker("stays", settings, 0);
  StartWorker("fails", settings, 1);
  EXPECT_EQ(ExitOf("fails"), 1);
  EXPECT_THAT(cluster_->Output("fails"),
              HasSubstr("input pipeline 1, replica 1: the callable: the actor is gone"));
  EXPECT_EQ(ExitOf("stays"), 0);
}

TEST_F(OwnInput, ACallableThatBlocksIsToldToStop) {
  StartWorker("blocks", {"model.options.input=blocks", "steps=40", "workers=1", "log_every=1"}, 0);
  for (int step = 0; step < 5; ++step) {
    WEIR_ASSERT_OK(cluster_->WaitForLine("blocks", "samples/s", kLong));
  }
  Stop("probe");
  EXPECT_EQ(ExitOf("blocks"), 0);
  StartWorker("again",
              {"name=again", "model.options.input=blocks", "steps=40", "workers=1", "log_every=1"},
              0);
  for (int step = 0; step < 5; ++step) {
    WEIR_ASSERT_OK(cluster_->WaitForLine("again", "samples/s", kLong));
  }
  cluster_->Terminate("again");
  EXPECT_EQ(ExitOf("again"), 128 + SIGTERM);
}

TEST_F(OwnInput, WhatTheJobFileLacksIsSaidAndNothingIsLeftOfTheJob) {
  const std::vector<std::string> settings = {"model.options.input=dataset", "steps=8", "workers=1"};
  StartWorker("wrong", settings, 0);
  EXPECT_EQ(ExitOf("wrong"), 5);
  EXPECT_THAT(cluster_->Output("wrong"), HasSubstr("write data.examples: 64"));
  std::vector<std::string> right = settings;
  right.push_back("data.examples=64");
  StartWorker("right", right, 0);
  EXPECT_EQ(ExitOf("right"), 0);
}

}  // namespace
}  // namespace weir
