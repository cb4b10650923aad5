// SPDX-License-Identifier: Apache-2.0
// The program weir-worker: its exit codes, its messages, what it leaves behind, and its end by
// signal.
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/clock.h"
#include "tests/support/eventually.h"
#include "tests/support/idx_files.h"
#include "tests/support/process_cluster.h"
#include "tests/support/program.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::StartsWith;

constexpr absl::Duration kLong = absl::Minutes(2);

constexpr char kJob[] = R"(name: tiny
model: {builtin: mlp, options: {hidden: 16}}
data:
  train: train-images-idx3-ubyte
  test: t10k-images-idx3-ubyte
  batch: {global: 16}
regime: sync
optimizers: {sgd: {learning_rate: 0.1, momentum: 0.9}}
epochs: 3
log_every: 5
checkpoint: {at_end: false}
)";

class WeirWorker : public testing::Test {
 protected:
  void SetUp() override {
    WriteIdxFiles(folder_.path(), 256, 64);
    std::ofstream(folder_ / "job.yaml") << kJob;
  }

  std::unique_ptr<ChildProcess> Start(std::vector<std::string> flags) {
    std::vector<std::string> arguments = {"--job", folder_ / "job.yaml", "--run-dir",
                                          folder_ / "run"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return StartProgram("weir-worker", arguments);
  }

  Answer Run(const std::vector<std::string>& flags) { return AnswerOf(*Start(flags), kLong); }

  bool HasManifest() const {
    std::error_code none;
    for (const auto& file :
         std::filesystem::directory_iterator(folder_ / "run/checkpoints/tiny", none)) {
      if (file.path().extension() == ".manifest") return true;
    }
    return false;
  }

  TempFolder folder_;
};

TEST_F(WeirWorker, ALocalJobTrainsAndLeavesItsSummaryAndMetrics) {
  const Answer answer = Run({"--local"});
  EXPECT_EQ(answer.code, 0) << answer.output;
  EXPECT_THAT(answer.output, HasSubstr("samples/s"));
  const auto summary = nlohmann::json::parse(folder_.Read("run/summary.json"));
  EXPECT_GE(summary["test_accuracy"], 0.9);
  EXPECT_EQ(summary["steps"], 48);
  EXPECT_EQ(summary["regime"], "sync");
  EXPECT_THAT(folder_.Read("run/metrics.jsonl"),
              AllOf(HasSubstr("\"loss\":"), HasSubstr("\"test_accuracy\":")));
  EXPECT_THAT(folder_.Read("run/job.yaml"), HasSubstr("name: tiny"));
}

TEST_F(WeirWorker, TwoRunsOfAJobAreEqual) {
  EXPECT_EQ(Run({"--local"}).code, 0);
  const auto first = nlohmann::json::parse(folder_.Read("run/summary.json"));
  const Answer refused = Run({"--local"});
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.output, HasSubstr("job 'tiny' has finished, and left no checkpoint; "
                                        "begin anew with replace: true"));
  EXPECT_EQ(nlohmann::json::parse(folder_.Read("run/summary.json")), first) << "it is left alone";
  EXPECT_EQ(Run({"--local", "--set", "replace=true"}).code, 0);
  const auto second = nlohmann::json::parse(folder_.Read("run/summary.json"));
  EXPECT_EQ(first["test_loss"], second["test_loss"]);
  EXPECT_EQ(first["train_loss"], second["train_loss"]);
}

TEST_F(WeirWorker, ACheckBuildsTheModelAndTrainsABatch) {
  const Answer answer = Run({"--check"});
  EXPECT_EQ(answer.code, 0) << answer.output;
  EXPECT_THAT(answer.output,
              HasSubstr("fine. mlp: 4 variables, 1108 parameters; 256 training and 64 "
                        "test examples; one batch of 16: loss "));
}

TEST_F(WeirWorker, ThePrintedJobIsAJobFile) {
  const Answer printed = Run({"--print-job", "--set", "regime=async"});
  EXPECT_EQ(printed.code, 0);
  std::ofstream(folder_ / "job.yaml") << printed.output;
  EXPECT_EQ(Run({"--print-job"}).output, printed.output);
}

TEST_F(WeirWorker, ABadJobFileEndsWith2AndSaysWhere) {
  const Answer typo = Run({"--local", "--set", "optimizers.sgd.momentun=0.5"});
  EXPECT_EQ(typo.code, 2);
  EXPECT_EQ(
      typo.output,
      "weir-worker: --set optimizers.sgd.momentun=0.5: optimizers.sgd.momentun: unknown key; did "
      "you mean \"momentum\"?");
  EXPECT_EQ(Run({}).code, 2);  // neither --local nor --coordinator
  EXPECT_EQ(Run({"--local", "--no-such-flag"}).code, 2);
}

TEST_F(WeirWorker, ALogLevelThatIsNoneEndsWith2AndSaysWhichThereAre) {
  const Answer answer = Run({"--check", "--log-level", "loud"});
  EXPECT_EQ(answer.code, 2);
  EXPECT_THAT(answer.output, HasSubstr("loud not in {trace,debug,info,warn,error,off}"));
}

TEST_F(WeirWorker, AnAddressThatIsNoneEndsWith2AndOneWhereNobodyAnswersWith6) {
  const Answer none = Run({"--coordinator", "foo"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.output, HasSubstr("--coordinator: 'foo' is no address"));
  const Answer nobody = Run({"--coordinator", "127.0.0.1:1", "--join-timeout-s", "1"});
  EXPECT_EQ(nobody.code, 6) << nobody.output;
  EXPECT_THAT(nobody.output, HasSubstr("coordinator 127.0.0.1:1"));
}

TEST_F(WeirWorker, MissingOrDamagedDataEndsWith5AndNamesTheFile) {
  const Answer missing = Run({"--local", "--set", "data.test=nowhere"});
  EXPECT_EQ(missing.code, 5);
  EXPECT_EQ(missing.output, absl::StrCat("weir-worker: ", folder_ / "nowhere",
                                         ": cannot be opened: No such file or directory"));
  std::ofstream(folder_ / "train-labels-idx1-ubyte", std::ios::app) << "more";
  const Answer damaged = Run({"--local"});
  EXPECT_EQ(damaged.code, 5);
  EXPECT_THAT(damaged.output, HasSubstr("train-labels-idx1-ubyte: goes on after the 256 elements"));
}

// With a rate of 1e30 the first step makes the weights so large that the next gradient is not
// finite.
TEST_F(WeirWorker, AGradientThatIsNotFiniteEndsWith4AndIsNamed) {
  const Answer answer = Run({"--local", "--set", "optimizers.sgd.learning_rate=1e30"});
  EXPECT_EQ(answer.code, 4) << answer.output;
  EXPECT_THAT(answer.output, ContainsRegex("the gradient of 'mlp/[a-z0-9.]+' is not finite at "
                                           "element [0-9]+ \\(worker [0-9a-f]{16}, step 1\\)"));
}

TEST_F(WeirWorker, ASignalEndsALocalJobWithACheckpointThatItGoesOnFrom) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const auto worker = Start({"--local", "--set", "epochs=100000", "--set",
                               "checkpoint.at_end=true", "--set", "replace=true"});
    ASSERT_TRUE(WaitForLine(*worker, "samples/s", kLong));
    worker->Signal(signal);
    const Answer stopped = AnswerOf(*worker, kLong);
    EXPECT_EQ(stopped.code, 128 + signal);
    EXPECT_THAT(stopped.output,
                HasSubstr("is saved: the same command with --set resume=auto goes on from it"));
    const Answer plain = Run({"--local", "--set", "epochs=100000"});
    EXPECT_EQ(plain.code, 3);
    EXPECT_THAT(plain.output,
                AllOf(HasSubstr("was stopped by command; go on from checkpoint 0000000"),
                      HasSubstr("or begin anew with replace: true")));
    const auto resumed = Start({"--local", "--set", "epochs=100000", "--set", "resume=latest"});
    ASSERT_TRUE(WaitForLine(*resumed, "resumes from 0000000", kLong));
    for (int i = 0; i < 2; ++i) resumed->Signal(SIGINT);
    AnswerOf(*resumed, kLong);
  }
}

TEST_F(WeirWorker, TheSameLocalJobInASecondTerminalIsRefusedAndTheFirstGoesOn) {
  const auto first = Start({"--local", "--set", "epochs=100000"});
  ASSERT_TRUE(WaitForLine(*first, "samples/s", kLong));
  const Answer second = Run({"--local", "--set", "epochs=100000"});
  EXPECT_EQ(second.code, 3);
  EXPECT_THAT(second.output,
              AllOf(HasSubstr(folder_ / "run/checkpoints"), HasSubstr("another process")));
  EXPECT_TRUE(WaitForLine(*first, "samples/s", kLong));
}

TEST_F(WeirWorker, AKilledLocalJobThatGoesOnKeepsTheCurveOfItsFirstLife) {
  const std::vector<std::string> flags = {"--local", "--set", "epochs=100000", "--set",
                                          "checkpoint.every=5 steps"};
  const auto killed = Start(flags);
  ASSERT_TRUE(WaitForLine(*killed, "samples/s", kLong));
  ASSERT_TRUE(Eventually([&] { return HasManifest(); }, kLong));
  killed->Signal(SIGKILL);
  ASSERT_TRUE(killed->WaitFor(Clock::Real(), kLong));
  const std::string curve = folder_.Read("run/metrics.jsonl");
  ASSERT_THAT(curve, HasSubstr("\"loss\":"));
  const auto again = Start(flags);
  ASSERT_TRUE(WaitForLine(*again, "resumes from 0000000", kLong));
  ASSERT_TRUE(WaitForLine(*again, "samples/s", kLong));
  EXPECT_THAT(folder_.Read("run/metrics.jsonl"), StartsWith(curve));
}

TEST_F(WeirWorker, ASignalEndsTrainingWithItsNumber) {
  const auto worker = Start({"--local", "--set", "epochs=100000"});
  ASSERT_TRUE(WaitForLine(*worker, "samples/s", kLong));
  worker->Signal(SIGTERM);
  EXPECT_EQ(AnswerOf(*worker, kLong).code, 128 + SIGTERM);
}

// It tries to reach a coordinator for an hour.
TEST_F(WeirWorker, ASignalEndsAWorkerThatHasNotJoinedAtOnce) {
  const auto worker = Start({"--coordinator", "127.0.0.1:1", "--join-timeout-s", "3600"});
  ASSERT_TRUE(WaitForLine(*worker, "joining", kLong));
  worker->Signal(SIGTERM);
  // It gives up what hangs after 10 seconds.
  EXPECT_EQ(AnswerOf(*worker, absl::Seconds(5)).code, 128 + SIGTERM);
}

// A thread that spins beside another process made a step 500 times slower: docs/performance.md.
TEST_F(WeirWorker, RunsOneThreadThatDoesNotSpinUnlessTheUserSaysOtherwise) {
  for (const char* name : {"OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}) unsetenv(name);
  setenv("OPENBLAS_NUM_THREADS", "2", 1);
  const auto worker = Start({"--local", "--set", "epochs=100000"});
  unsetenv("OPENBLAS_NUM_THREADS");
  ASSERT_TRUE(WaitForLine(*worker, "samples/s", kLong));
  std::stringstream environment;
  environment << std::ifstream(absl::StrCat("/proc/", worker->pid(), "/environ")).rdbuf();
  EXPECT_THAT(absl::StrSplit(environment.str(), '\0'),
              IsSupersetOf({"OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=2",
                            "OMP_WAIT_POLICY=PASSIVE", "GOMP_SPINCOUNT=0"}));
}

// It waits for a second worker that never comes.
TEST_F(WeirWorker, ASignalEndsAlsoAWaitForOthers) {
  ProcessCluster::Options options;
  options.folder = folder_.path();
  WEIR_ASSERT_OK_AND_ASSIGN(const auto cluster, ProcessCluster::Start(options));
  const auto worker = Start({"--coordinator", cluster->coordinator(), "--set", "workers=2"});
  ASSERT_TRUE(WaitForLine(*worker, "waiting", kLong));
  worker->Signal(SIGINT);
  EXPECT_EQ(AnswerOf(*worker, absl::Seconds(30)).code, 128 + SIGINT);
}

// Its farewell would be repeated for a minute.
TEST_F(WeirWorker, ASignalEndsItInTimeAlsoWhereItsCoordinatorIsAway) {
  ProcessCluster::Options options;
  options.folder = folder_.path();
  WEIR_ASSERT_OK_AND_ASSIGN(const auto cluster, ProcessCluster::Start(options));
  const std::vector<std::string> flags = {"--coordinator", cluster->coordinator(), "--set",
                                          "epochs=100000"};
  const auto patient = Start(flags);
  ASSERT_TRUE(WaitForLine(*patient, "samples/s", kLong));
  WEIR_ASSERT_OK(cluster->Kill("coordinator"));
  patient->Signal(SIGTERM);
  EXPECT_EQ(AnswerOf(*patient, absl::Seconds(30)).code, 128 + SIGTERM);

  WEIR_ASSERT_OK(cluster->StartCoordinator());
  std::vector<std::string> another = flags;
  another.insert(another.end(), {"--set", "name=another"});
  const auto hasty = Start(another);
  ASSERT_TRUE(WaitForLine(*hasty, "samples/s", kLong));
  WEIR_ASSERT_OK(cluster->Kill("coordinator"));
  hasty->Signal(SIGTERM);
  ASSERT_TRUE(WaitForLine(*hasty, "leaves the job at once", kLong));
  hasty->Signal(SIGINT);
  EXPECT_EQ(AnswerOf(*hasty, absl::Seconds(30)).code, 128 + SIGINT) << "not that of the first";
}

TEST_F(WeirWorker, AJobOfThisNameWithAnotherSpecIsRefusedWith3) {
  ProcessCluster::Options options;
  options.folder = folder_.path();
  WEIR_ASSERT_OK_AND_ASSIGN(const auto cluster, ProcessCluster::Start(options));
  const auto first = Start({"--coordinator", cluster->coordinator(), "--set", "workers=2"});
  ASSERT_TRUE(WaitForLine(*first, "waiting", kLong));
  const Answer second =
      Run({"--coordinator", cluster->coordinator(), "--set", "workers=2", "--set", "seed=5"});
  EXPECT_EQ(second.code, 3) << second.output;
  EXPECT_THAT(second.output, HasSubstr("seed"));
}

}  // namespace
}  // namespace weir
