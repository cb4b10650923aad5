// SPDX-License-Identifier: Apache-2.0
// One `weir run`: to its end, refused, interrupted, with processes that are killed.
#include <gmock/gmock.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "tests/faults/run_fixture.h"
#include "tests/support/process_cluster.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(RunTest, AJobRunsToItsEndAndLeavesItsSummaryLogsAndCheckpoint) {
  const Answer answer =
      Run({"--servers", "2", "--set", "regime=sync", "--summary", folder_ + "/summary.json"});
  ASSERT_EQ(answer.code, 0) << answer.output;
  WEIR_ASSERT_OK_AND_ASSIGN(const std::string text, ReadTextFile(folder_ + "/summary.json"));
  const auto summary = nlohmann::json::parse(text);
  for (const char* key : {"test_accuracy", "train_loss", "steps", "samples_per_second", "regime",
                          "servers", "workers", "checkpoint", "wall_seconds"}) {
    EXPECT_TRUE(summary.contains(key)) << key << " is not in " << text;
  }
  EXPECT_GE(summary.value("test_accuracy", 0.0), 0.9);
  EXPECT_EQ(summary.value("servers", 0), 2);
  EXPECT_EQ(summary.value("workers", 0), 2);
  EXPECT_EQ(summary.value("regime", ""), "sync");
  for (const char* file : {"job.yaml", "metrics.jsonl", "summary.json", "logs/worker-0.log",
                           "logs/server-1.log", "logs/coordinator.log"}) {
    EXPECT_TRUE(std::filesystem::exists(folder_ + "/runs/tiny/" + file)) << file;
  }
  // deploy/install-deps.sh installs it; without it a run says why it leaves no curve.
  if (std::system("gnuplot --version") == 0) {
    WEIR_ASSERT_OK_AND_ASSIGN(const std::string curve,
                              ReadTextFile(folder_ + "/runs/tiny/loss.png"));
    EXPECT_THAT(curve, StartsWith("\x89PNG"));
    EXPECT_EQ(summary.value("loss_curve", ""), folder_ + "/runs/tiny/loss.png");
  }

  // Its name is taken now, unless somebody says otherwise.
  const Answer again = Run({"--servers", "2"});
  EXPECT_NE(again.code, 0);
  EXPECT_THAT(again.output, HasSubstr("replace"));
  EXPECT_EQ(Run({"--servers", "2", "--replace"}).code, 0);
}

TEST_F(RunTest, AProgramOfOnesOwnIsRunAsTheStockWorkerIs) {
  WriteJob(absl::StrReplaceAll(
      kJob, {{"{builtin: mlp, options: {hidden: [32]}}", "{replica: own, options: {width: 16}}"},
             {"{adam: {learning_rate: 0.01}}",
              "{adam: {learning_rate: 0.01}, sgd: {learning_rate: 0.1}}"}}));
  const Answer unnamed = Run({});
  EXPECT_EQ(unnamed.code, 2);
  EXPECT_THAT(unnamed.output, AllOf(HasSubstr("\"own\""), HasSubstr("--program")));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/runs")) << "nothing was started";
  const std::string program = ProcessCluster::Program("own_replica");
  const Answer answer = Run({"--program", program, "--servers", "2"});
  ASSERT_EQ(answer.code, 0) << answer.output;
  EXPECT_EQ(Summary().value("workers", 0), 2);
  const Answer wrong = Run({"--program", program, "--set", "optimizers.sgd.learning_rate=-1"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.output, Not(HasSubstr("own_replica: ")));
}

TEST_F(RunTest, ItEndsWithTheWorkersCode) {
  EXPECT_EQ(Run({"--set", "optimizers.adam.learning_rate=-1"}).code, 2);
  EXPECT_EQ(Run({"--coordinator", "foo"}).code, 2);
  for (const char* file : {"train", "train_labels", "test", "test_labels"}) {
    const Answer missing = Run({"--set", absl::StrCat("data.", file, "=nowhere")});
    EXPECT_EQ(missing.code, 5) << file;
    EXPECT_THAT(missing.output, HasSubstr("nowhere"));
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/runs/tiny")) << "nothing was started";
  }
  const Answer nobody = Run({"--coordinator", "127.0.0.1:1"});
  EXPECT_EQ(nobody.code, 6);
  EXPECT_THAT(nobody.output, HasSubstr("no worker was started"));
  const Answer diverged = Run({"--workers", "1", "--set", "optimizers.adam.learning_rate=1e30"});
  EXPECT_EQ(diverged.code, 4) << diverged.output;
  EXPECT_THAT(diverged.output, HasSubstr("failed: the training diverged (exit status 4)"));
}

TEST_F(RunTest, AWorkersFailureIsOneAlsoWhereWhoStartedTheRunIgnoresTheEndsOfItsChildren) {
  const auto env = ChildProcess::Start(
      {.program = "/usr/bin/env",
       .arguments = {"--ignore-signal=CHLD", ProcessCluster::Program("weir"), "run", job_, "--runs",
                     folder_ + "/runs", "--state", folder_ + "/local", "--workers", "1", "--set",
                     "optimizers.adam.learning_rate=1e30"}});
  WEIR_ASSERT_OK(env);
  const Answer diverged = AnswerOf(**env, kLong);
  EXPECT_EQ(diverged.code, 4) << diverged.output;
}

TEST_F(RunTest, ARunsOwnClusterCanBeAskedAfterItsEndAndTheEndSaysHow) {
  const Answer run = Run({"--workers", "1", "--set", "epochs=1"});
  ASSERT_EQ(run.code, 0) << run.output;
  const std::string folder = folder_ + "/runs/tiny";
  const std::string typed = ProcessCluster::Program("weir");
  EXPECT_THAT(run.output, HasSubstr(typed + " checkpoint list --run-dir " + folder + "\n"));
  const std::string id = Summary().value("checkpoint", "");
  const Answer list = Weir({"checkpoint", "list", "--run-dir", folder});
  EXPECT_EQ(list.code, 0) << list.output;
  EXPECT_THAT(list.output, AllOf(HasSubstr("tiny"), HasSubstr(id)));
  const auto json = nlohmann::json::parse(
      Weir({"checkpoint", "list", "--json", "--run-dir", folder}).output, nullptr, false);
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json.value("/manifests/0/job"_json_pointer, std::string()), "tiny");
  EXPECT_EQ(json.value("/manifests/0/id"_json_pointer, std::string()), id);
  EXPECT_THAT(Weir({"jobs", "tiny", "--run-dir", folder}).output, HasSubstr("finished"));
  EXPECT_THAT(Weir({"status", "--run-dir", folder}).output, HasSubstr("finished"));

  const Answer none = Weir({"jobs", "--run-dir", folder_ + "/runs/other"});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.output, HasSubstr("no folder of a run that had a cluster of its own"));
}

TEST_F(RunTest, ARunThatIsGoingOnCanBeAskedAndASecondOneInItsFolderIsRefused) {
  const auto weir = Start({"--set", "epochs=100000"});
  const std::string folder = folder_ + "/runs/tiny";
  const auto is_running = [&] {
    return std::filesystem::exists(folder + "/cluster/cluster.json") &&
           absl::StrContains(Weir({"jobs", "--run-dir", folder}).output, "running");
  };
  ASSERT_TRUE(Eventually([&] { return weir->Ended() || is_running(); }, kLong));
  const Answer second = Run({});
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.output, HasSubstr("another run of tiny is at work in " + folder));
  weir->Signal(SIGINT);
  const Answer answer = AnswerOf(*weir, absl::Seconds(60));
  EXPECT_EQ(answer.code, 130) << answer.output;
}

// `weir local down --force` takes the cluster from a run, and `up` gives it back.
TEST_F(RunTest, ARunGoesOnWhenItsLocalClusterIsBack) {
  const auto local = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "local");
    arguments.insert(arguments.end(), {"--state", folder_ + "/local"});
    return Weir(arguments).code;
  };
  ASSERT_EQ(local({"up", "--servers", "1"}), 0);
  const auto weir = Start({"--workers", "1", "--set", "regime=sync", "--set", "epochs=400", "--set",
                           "checkpoint.every=100 steps"});
  AwaitCheckpoint(*weir, folder_ + "/local");
  ASSERT_EQ(local({"down"}), 1);  // a job is at work
  ASSERT_EQ(local({"down", "--force"}), 0);
  ASSERT_EQ(local({"up", "--servers", "1"}), 0);
  const Answer answer = AnswerOf(*weir, kLong);
  EXPECT_EQ(answer.code, 0) << answer.output;
  EXPECT_THAT(answer.output, HasSubstr("On the local cluster of the coordinator at"));
  EXPECT_EQ(local({"down"}), 0);
}

TEST_F(RunTest, AJobFileWithATypoIsRefusedBeforeAnythingStarts) {
  WriteJob(absl::StrReplaceAll(kJob, {{"regime: async", "regmie: async"}}));
  const Answer answer = Run({});
  EXPECT_NE(answer.code, 0);
  EXPECT_THAT(answer.output, AllOf(HasSubstr("job.yaml"), HasSubstr("regmie")));
  EXPECT_THAT(answer.output, Not(HasSubstr("Started a coordinator")));
}

TEST_F(RunTest, AMissingDataFileIsNamed) {
  std::filesystem::remove(folder_ + "/train-images-idx3-ubyte");
  const Answer answer = Run({});
  EXPECT_NE(answer.code, 0);
  EXPECT_THAT(answer.output, HasSubstr(folder_ + "/train-images-idx3-ubyte: cannot be opened"));
}

TEST_F(RunTest, AKilledServerIsStartedAgainAndTheSummarySaysWhatWasLost) {
  const Answer answer = RunAndKill("server-1");
  EXPECT_EQ(answer.code, 0) << answer.output;
  EXPECT_THAT(answer.output, HasSubstr("server-1 ended with signal 9"));
  const nlohmann::json summary = Summary();
  EXPECT_EQ(summary.value("restarted_daemons", 0), 1);
  EXPECT_GT(summary.value("lost_steps", 0), 0);
  EXPECT_EQ(summary.value("replaced_workers", -1), 0);
  EXPECT_EQ(summary.value("steps", 0), 200 * 512 / 32);
  EXPECT_GE(summary.value("test_accuracy", 0.0), 0.9);
}

TEST_F(RunTest, AKilledWorkerIsReplacedAndTheOthersAreNot) {
  const Answer answer = RunAndKill("--rank" + std::string(1, '\0') + "1");
  EXPECT_EQ(answer.code, 0) << answer.output;
  EXPECT_THAT(answer.output, HasSubstr("worker-1 is replaced"));
  const nlohmann::json summary = Summary();
  EXPECT_EQ(summary.value("replaced_workers", 0), 1);
  EXPECT_EQ(summary.value("lost_steps", -1), 0);
  EXPECT_EQ(summary.value("steps", 0), 200 * 512 / 32);
}

TEST_F(RunTest, AnInterruptEndsEverythingWithStatus130) {
  WriteJob(absl::StrReplaceAll(kJob, {{"epochs: 3", "epochs: 100000"}}));
  const auto weir = Start({});
  ASSERT_TRUE(WaitForLine(*weir, "samples/s", kLong));
  weir->Signal(SIGINT);
  const Answer answer = AnswerOf(*weir, absl::Seconds(60));
  EXPECT_EQ(answer.code, 130) << answer.output;
}

}  // namespace
}  // namespace weir
