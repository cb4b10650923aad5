// SPDX-License-Identifier: Apache-2.0
// `weir run` with the stock worker on a tiny data set.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "cli/text_file.h"
#include "tests/support/eventually.h"
#include "tests/support/idx_files.h"
#include "tests/support/process_cluster.h"
#include "tests/support/program.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr absl::Duration kLong = absl::Minutes(4);

constexpr char kJob[] = R"(name: tiny
model: {builtin: mlp, options: {hidden: [32]}}
data:
  train: train-images-idx3-ubyte
  test: t10k-images-idx3-ubyte
  batch: {per_replica: 16}
workers: 2
regime: async
optimizers: {adam: {learning_rate: 0.01}}
epochs: 3
log_every: 5
)";

class RunTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { UseOneThread(); }

  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    WriteIdxFiles(folder_, 512, 128);
    WriteJob(kJob);
  }

  void WriteJob(const std::string& text) { WEIR_ASSERT_OK(WriteTextFile(job_, text)); }

  // Another command of weir, to its end.
  static Answer Weir(const std::vector<std::string>& arguments) {
    return AnswerOf(*StartProgram("weir", arguments), kLong);
  }

  std::unique_ptr<ChildProcess> Start(std::vector<std::string> flags) {
    std::vector<std::string> arguments = {
        "run", job_, "--runs", folder_ + "/runs", "--state", folder_ + "/local"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return StartProgram("weir", arguments);
  }

  Answer Run(const std::vector<std::string>& flags) { return AnswerOf(*Start(flags), kLong); }

  // The process of a run's child, by a part of its command line.
  static pid_t ChildOf(const ChildProcess& weir, const std::string& part) {
    const auto children =
        ReadTextFile(absl::StrCat("/proc/", weir.pid(), "/task/", weir.pid(), "/children"));
    EXPECT_THAT(children, IsOk());
    for (absl::string_view child : absl::StrSplit(*children, ' ', absl::SkipWhitespace())) {
      const auto command = ReadTextFile(absl::StrCat("/proc/", child, "/cmdline"));
      pid_t pid = 0;
      if (command.ok() && absl::StrContains(*command, part) && absl::SimpleAtoi(child, &pid)) {
        return pid;
      }
    }
    ADD_FAILURE() << "no child with " << part << " in its command line";
    return 0;
  }

  // Kills a child once the job has come to some step, and waits for the end of the run.
  Answer RunAndKill(const std::string& part) {
    const auto weir = Start({"--servers", "2", "--set", "regime=sync", "--set", "epochs=200",
                             "--set", "checkpoint.every=200 steps"});
    AwaitCheckpoint(*weir, folder_ + "/runs/tiny");
    kill(ChildOf(*weir, part), SIGKILL);
    return AnswerOf(*weir, kLong);
  }

  // Fails the test where the run ends before it has said so. Returns what it has said.
  static std::string AwaitOutput(ChildProcess& weir, const std::string& part) {
    const absl::Time deadline = Clock::Real().Now() + kLong;
    std::string output;
    while (!absl::StrContains(output, part) && Clock::Real().Now() < deadline) {
      absl::StrAppend(&output, absl::StrJoin(weir.ReadLines(), "\n"), "\n");
      if (!absl::StrContains(output, part) && weir.WaitFor(Clock::Real(), absl::Milliseconds(20))) {
        absl::StrAppend(&output, absl::StrJoin(weir.ReadLines(), "\n"));
        break;
      }
    }
    EXPECT_THAT(output, HasSubstr(part));
    return output;
  }

  // Ids of the checkpoints in the run's own cluster, oldest first.
  std::vector<std::string> Checkpoints() {
    std::vector<std::string> ids;
    const std::string folder = folder_ + "/runs/tiny/cluster/coordinator/checkpoints/tiny";
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
      if (entry.path().extension() == ".manifest") ids.push_back(entry.path().stem());
    }
    std::sort(ids.begin(), ids.end());
    return ids;
  }

  // Kills the run, and with it all of its processes, when it has so many checkpoints.
  void KillWithCheckpoints(ChildProcess& weir, size_t number) {
    const absl::Time deadline = Clock::Real().Now() + kLong;
    while (Checkpoints().size() < number && Clock::Real().Now() < deadline) {
      ASSERT_FALSE(weir.WaitFor(Clock::Real(), absl::Milliseconds(20)))
          << absl::StrJoin(weir.ReadLines(), "\n");
    }
    weir.Signal(SIGKILL);
    ASSERT_TRUE(weir.WaitFor(Clock::Real(), absl::Seconds(30)));
  }

  // Of a cluster whose logs are in `folder`. Fails the test where the run ends before it.
  static void AwaitCheckpoint(ChildProcess& weir, const std::string& folder) {
    const auto saved = [&] {
      const auto log = ReadTextFile(folder + "/logs/coordinator.log");
      return log.ok() && absl::StrContains(*log, "checkpoint committed");
    };
    EXPECT_TRUE(Eventually([&] { return saved() || weir.Ended(); }, kLong));
    EXPECT_FALSE(weir.Ended()) << absl::StrJoin(weir.ReadLines(), "\n");
  }

  nlohmann::json Summary() {
    const auto text = ReadTextFile(folder_ + "/runs/tiny/summary.json");
    EXPECT_THAT(text, IsOk());
    return nlohmann::json::parse(text.ok() ? *text : "{}");
  }

  const TempFolder temp_;  // of this process: the same test may run beside it
  const std::string folder_ = temp_.path();
  const std::string job_ = folder_ + "/job.yaml";
};

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

TEST_F(RunTest, ARerunThatIsRefusedLeavesTheResultAndOneThatReplacesShowsNothingOfIt) {
  ASSERT_EQ(Run({"--set", "epochs=1"}).code, 0);
  const nlohmann::json result = Summary();
  const Answer refused = Run({"--set", "epochs=1"});
  EXPECT_EQ(refused.code, 3) << refused.output;
  EXPECT_THAT(refused.output, AllOf(HasSubstr("failed: the cluster refused the job"),
                                    Not(HasSubstr("run folder"))));
  EXPECT_EQ(Summary(), result);

  const Answer replaced = Run({"--set", "epochs=1", "--replace"});
  EXPECT_EQ(replaced.code, 0) << replaced.output;
  const size_t begin = replaced.output.find("Started a coordinator");
  const std::string before =
      replaced.output.substr(begin, replaced.output.find("[worker-") - begin);
  EXPECT_THAT(before, Not(HasSubstr("finished")));
}

TEST_F(RunTest, ItEndsWithTheWorkersCode) {
  EXPECT_EQ(Run({"--set", "optimizers.adam.learning_rate=-1"}).code, 2);
  EXPECT_EQ(Run({"--coordinator", "foo"}).code, 2);
  EXPECT_EQ(Run({"--set", "data.train=nowhere"}).code, 5);
  const Answer nobody = Run({"--coordinator", "127.0.0.1:1"});
  EXPECT_EQ(nobody.code, 6);
  EXPECT_THAT(nobody.output, HasSubstr("no worker was started"));
  const Answer diverged = Run({"--workers", "1", "--set", "optimizers.adam.learning_rate=1e30"});
  EXPECT_EQ(diverged.code, 4) << diverged.output;
  EXPECT_THAT(diverged.output, HasSubstr("failed: the training diverged (exit status 4)"));
}

TEST_F(RunTest, AWorkersFailureIsOneAlsoWhereWhoStartedTheRunIgnoresTheEndsOfItsChildren) {
  const auto env = ChildProcess::Start(
      {.program = "env",
       .arguments = {"--ignore-signal=CHLD", ProcessCluster::Program("weir"), "run", job_, "--runs",
                     folder_ + "/runs", "--state", folder_ + "/local", "--workers", "1", "--set",
                     "optimizers.adam.learning_rate=1e30"}});
  WEIR_ASSERT_OK(env);
  const Answer diverged = AnswerOf(**env, kLong);
  EXPECT_EQ(diverged.code, 4) << diverged.output;
}

// 512 examples in batches of 16 are 32 steps an epoch.
TEST_F(RunTest, AJobGoesOnFromItsNewestCheckpointOrFromTheOneThatIsNamed) {
  const auto run = [&](const char* resume, const char* epochs) {
    return Run({"--servers", "2", "--workers", "1", "--set", "regime=sync", "--set",
                absl::StrCat("resume=", resume), "--set", absl::StrCat("epochs=", epochs)});
  };
  const Answer first = run("auto", "1");
  ASSERT_EQ(first.code, 0) << first.output;
  EXPECT_THAT(first.output, HasSubstr("step=0 checkpoint=none"));
  const std::string id = Summary().value("checkpoint", "");
  EXPECT_EQ(Summary().value("steps", 0), 32);

  const Answer second = run("auto", "2");
  ASSERT_EQ(second.code, 0) << second.output;
  EXPECT_THAT(second.output, HasSubstr("step=32 checkpoint=" + id));
  EXPECT_EQ(Summary().value("steps", 0), 64);
  EXPECT_NE(Summary().value("checkpoint", ""), id);

  const Answer third = run(id.c_str(), "3");
  ASSERT_EQ(third.code, 0) << third.output;
  EXPECT_THAT(third.output, HasSubstr("step=32 checkpoint=" + id));
  EXPECT_EQ(Summary().value("steps", 0), 96);

  const Answer unknown = run("00000099-1", "4");
  EXPECT_EQ(unknown.code, 3) << unknown.output;
  EXPECT_THAT(unknown.output, HasSubstr("00000099-1"));
}

TEST_F(RunTest, ARunsOwnClusterCanBeAskedAfterItsEndAndTheEndSaysHow) {
  const Answer run = Run({"--workers", "1", "--set", "epochs=1"});
  ASSERT_EQ(run.code, 0) << run.output;
  const std::string folder = folder_ + "/runs/tiny";
  EXPECT_THAT(run.output, HasSubstr("weir checkpoint list --run-dir " + folder + "\n"));
  const std::string id = Summary().value("checkpoint", "");
  const Answer list = Weir({"checkpoint", "list", "--run-dir", folder});
  EXPECT_EQ(list.code, 0) << list.output;
  EXPECT_THAT(list.output, AllOf(HasSubstr("tiny"), HasSubstr(id)));
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

// Three times: each goes on from where the one before it has stopped.
TEST_F(RunTest, AnInterruptSavesACheckpointThatTheNextRunGoesOnFrom) {
  WriteJob(absl::StrReplaceAll(kJob, {{"epochs: 3", "epochs: 100000"}}));
  std::string checkpoint;
  for (int run = 0; run < 3; ++run) {
    const auto weir =
        run == 0 ? Start({"--servers", "2"}) : Start({"--servers", "2", "--set", "resume=auto"});
    if (run > 0) {
      ASSERT_TRUE(WaitForLine(*weir, "resumes from " + checkpoint, kLong));
    }
    ASSERT_TRUE(WaitForLine(*weir, " samples/s", kLong));
    weir->Signal(SIGINT);
    const Answer answer = AnswerOf(*weir, absl::Seconds(90));
    EXPECT_EQ(answer.code, 130) << answer.output;
    ASSERT_THAT(answer.output,
                AllOf(HasSubstr("go on from it with"), HasSubstr("--set resume=auto")));
    checkpoint = answer.output.substr(answer.output.find("Its newest checkpoint is ") + 25, 10);
  }
  // A plain rerun does not throw it away in silence.
  const Answer plain = Run({"--servers", "2"});
  EXPECT_EQ(plain.code, 3) << plain.output;
  EXPECT_THAT(plain.output, AllOf(HasSubstr("resume: auto to go on from checkpoint " + checkpoint),
                                  HasSubstr("replace: true to begin anew")));
}

// All processes of the run die with it; the next run's coordinator gives the dead members a lease.
TEST_F(RunTest, AKilledRunGoesOnOrBeginsAnewAtTheFirstTry) {
  WriteJob(absl::StrReplaceAll(kJob, {{"epochs: 3", "epochs: 100000"}}) +
           "checkpoint: {every: 20 steps}\n");
  for (const char* flag : {"", "resume=latest", "resume=auto", "", "replace=true"}) {
    const auto weir = *flag == 0 ? Start({}) : Start({"--set", flag});
    const bool anew = std::string(flag) == "replace=true";
    ASSERT_TRUE(WaitForLine(*weir, anew ? "checkpoint=none" : "training attempt=", kLong)) << flag;
    ASSERT_TRUE(WaitForLine(*weir, " samples/s", kLong)) << flag;
    AwaitCheckpoint(*weir, folder_ + "/runs/tiny");
    weir->Signal(SIGKILL);
    ASSERT_TRUE(weir->WaitFor(Clock::Real(), absl::Seconds(30))) << flag;
  }
}

TEST_F(RunTest, AKilledRunGoesBackOnceToTheCheckpointThatIsNamed) {
  WriteJob(absl::StrReplaceAll(kJob, {{"epochs: 3", "epochs: 100000"}}) +
           "checkpoint: {every: 20 steps, keep: 1000}\n");
  KillWithCheckpoints(*Start({}), 3);
  const std::string id = Checkpoints()[1];
  const auto back = Start({"--set", "resume=" + id});
  AwaitOutput(*back, "resumes from " + id + " (step ");
  KillWithCheckpoints(*back, Checkpoints().size() + 2);
  // The same command: its run goes on from what it has saved itself.
  const auto again = Start({"--set", "resume=" + id});
  const std::string output = AwaitOutput(*again, "resumes from ");
  EXPECT_THAT(output, Not(HasSubstr("resumes from " + id)));
  again->Signal(SIGKILL);
  EXPECT_TRUE(again->WaitFor(Clock::Real(), absl::Seconds(30)));
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
