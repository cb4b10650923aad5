// SPDX-License-Identifier: Apache-2.0
// Runs over shell scripts in the places of the daemons and the worker.
#include "cli/job_run.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/exit_code.h"
#include "cli/text_file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// Every script begins with $starts, how often the program with these very arguments has started.
constexpr char kCountStarts[] = R"sh(#!/bin/sh
cd "$(dirname "$0")"
echo "$@" >>"$(basename "$0").starts"
starts=$(grep -cxF -- "$*" "$(basename "$0").starts")
)sh";
constexpr char kDaemon[] = R"sh(
echo "$(basename "$0") ready address=127.0.0.1:1"
exec sleep 100
)sh";
constexpr char kPrintJob[] = R"sh(
case "$*" in *--print-job*) printf 'name: fake\nworkers: 2\nregime: sync\n'; exit 0 ;; esac
)sh";

constexpr char kUntilAServerIsStartedAgain[] =
    "until grep -q -e '--listen 127.0.0.1:7' weir-server.starts; do sleep 0.02; done";

class JobRunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    WriteProgram("weir-coordinator", kDaemon);
    WriteProgram("weir-server", kDaemon);
  }

  void WriteProgram(const std::string& name, const std::string& script) {
    const std::string path = absl::StrCat(folder_, "/", name);
    WEIR_ASSERT_OK(WriteTextFile(path, absl::StrCat(kCountStarts, script)));
    ASSERT_EQ(chmod(path.c_str(), 0700), 0);
  }
  void WriteWorker(const std::string& script) {
    WriteProgram("weir-worker", absl::StrCat(kPrintJob, script));
  }

  absl::StatusOr<int> Run() {
    Console console(output_, {.clock = &Clock::Real()});
    JobRun run(
        {.job_file = "job.yaml",
         .overrides = {"a=1"},
         .servers = 2,
         .coordinator = coordinator_,
         .runs_folder = folder_ + "/runs",
         .summary_file = {},
         .program_folder = folder_,
         .clock = &Clock::Real(),
         .stop_requests = [this] { return stop_ && Starts("weir-worker").size() > 2 ? 1 : 0; }},
        console);
    return run.Run();
  }

  // Command lines of a program so far.
  std::vector<std::string> Starts(const std::string& program) {
    const auto text = ReadTextFile(absl::StrCat(folder_, "/", program, ".starts"));
    return absl::StrSplit(text.ok() ? *text : "", '\n', absl::SkipEmpty());
  }

  const TempFolder temp_;  // of this process: the same test may run beside it
  const std::string folder_ = temp_.path();
  // What a run that went well has left.
  void LeaveEarlierResult() {
    WEIR_ASSERT_OK(WriteTextFile(Left("summary.json"), "{\"test_accuracy\": 0.9}\n"));
    WEIR_ASSERT_OK(WriteTextFile(Left("metrics.jsonl"), "{\"epoch\": 1, \"loss\": 0.5}\n"));
    WEIR_ASSERT_OK(WriteTextFile(Left("job.yaml"), "name: fake # as it was then\n"));
  }
  std::string Left(const std::string& name) const { return folder_ + "/runs/fake/" + name; }
  std::string Read(const std::string& name) const {
    const auto text = ReadTextFile(Left(name));
    return text.ok() ? *text : "";
  }
  size_t Count(const std::string& part) const {
    return std::vector<std::string>(absl::StrSplit(output_.str(), part)).size() - 1;
  }

  std::ostringstream output_;
  std::string coordinator_;  // empty: the run brings up its own
  bool stop_ = false;        // ask to, when the workers have been started
};

TEST_F(JobRunTest, TheWorkersGetTheJobTheirRankAndTheClustersAddress) {
  WriteWorker("echo hello; exit 0");
  EXPECT_EQ(*Run(), 0) << output_.str();
  ASSERT_THAT(Starts("weir-worker"), SizeIs(3));  // one of them to print the job
  EXPECT_THAT(Starts("weir-worker"),
              Contains(AllOf(HasSubstr("--job job.yaml"), HasSubstr("--rank 0"),
                             HasSubstr("--set a=1"), HasSubstr("--coordinator 127.0.0.1:1"))));
  EXPECT_THAT(output_.str(), HasSubstr("[worker-0] hello"));
  WEIR_ASSERT_OK_AND_ASSIGN(const std::string log,
                            ReadTextFile(folder_ + "/runs/fake/logs/worker-1.log"));
  EXPECT_EQ(log, "hello\n");
}

TEST_F(JobRunTest, AWorkerThatDiesIsReportedWithItsLastLinesAndReplaced) {
  WriteWorker(R"sh([ "$starts" = 1 ] && echo last words && kill -9 $$; exit 0)sh");
  EXPECT_EQ(*Run(), 0) << output_.str();
  EXPECT_THAT(output_.str(), AllOf(HasSubstr("worker-0 ended with signal 9"),
                                   HasSubstr("last words"), HasSubstr("worker-0 is replaced")));
}

TEST_F(JobRunTest, AWorkerThatDiesTwiceFailsTheRun) {
  WriteWorker("exit 7");
  EXPECT_EQ(*Run(), 7);
  EXPECT_THAT(Starts("weir-worker"), SizeIs(5));
}

TEST_F(JobRunTest, AWorkerThatCannotDoTheJobIsNotReplaced) {
  WriteWorker("exit 2");
  EXPECT_EQ(*Run(), 2);
  EXPECT_THAT(Starts("weir-worker"), SizeIs(3));
}

TEST_F(JobRunTest, AStopByRequestIsNoFailureOfTheWorkers) {
  WriteWorker("trap 'exit 143' TERM; while :; do sleep 0.01; done");
  stop_ = true;
  EXPECT_EQ(*Run(), 130);
  EXPECT_THAT(output_.str(), AllOf(HasSubstr("worker-0 has stopped."), Not(HasSubstr("last lines")),
                                   HasSubstr("The job was stopped before its end.")));
}

TEST_F(JobRunTest, AReplacementOfAWorkerDoesNotBeginTheJobAnew) {
  WriteProgram("weir-worker", R"sh(
case "$*" in
  *--print-job*) printf 'name: fake\nworkers: 2\nregime: sync\nreplace: true\n' ;;
  *replace=false*) ;;
  *) kill -9 $$ ;;
esac
)sh");
  EXPECT_EQ(*Run(), 0) << output_.str();
  int anew = 0;
  for (const std::string& start : Starts("weir-worker")) {
    anew += absl::StrContains(start, "--set replace=false") ? 1 : 0;
  }
  EXPECT_EQ(anew, 2) << "of two workers that were killed";
}

TEST_F(JobRunTest, AJobThatIsRefusedStartsNothing) {
  WriteProgram("weir-worker", "echo 'weir-worker: job.yaml:3: no such key'; exit 2");
  EXPECT_THAT(Run(), HasStatus(absl::StatusCode::kInvalidArgument, "job.yaml:3: no such key"));
  EXPECT_THAT(Starts("weir-coordinator"), SizeIs(0));
}

TEST_F(JobRunTest, AServerThatDiesIsStartedAgainWithItsNameDataAndAddress) {
  // It dies when a worker runs, and server-0 serves.
  WriteProgram("weir-server", absl::StrCat(R"sh(
case "$*" in *server-1*127.0.0.1:0*)
  echo "weir-server ready address=127.0.0.1:7"
  until grep -q -e --rank weir-worker.starts; do sleep 0.02; done
  kill -9 $$ ;; esac
)sh",
                                           kDaemon));
  WriteWorker(kUntilAServerIsStartedAgain);
  WEIR_ASSERT_OK_AND_ASSIGN(const int code, Run());
  EXPECT_EQ(code, 0) << output_.str();
  EXPECT_THAT(Starts("weir-server"), SizeIs(3));
  // The address at which it has served.
  EXPECT_THAT(
      Starts("weir-server"),
      Contains(AllOf(HasSubstr("--name server-1"), HasSubstr("cluster/server-1"),
                     HasSubstr("--listen 127.0.0.1:7"), HasSubstr("--coordinator 127.0.0.1:1"))));
  EXPECT_THAT(output_.str(), HasSubstr("server-1 ended with signal 9"));
}

TEST_F(JobRunTest, AServerThatDiesWhileAnotherOneComesUpIsStartedAgain) {
  // Server-0 serves when the run has taken notice of server-1's death.
  WriteProgram("weir-server", absl::StrCat(R"sh(
case "$*" in
  *server-1*127.0.0.1:0*)
    echo "weir-server ready address=127.0.0.1:7"; echo $$ >dead; kill -9 $$ ;;
  *server-0*)
    while [ ! -s dead ] || kill -0 "$(cat dead)" 2>/dev/null; do sleep 0.02; done ;;
esac
)sh",
                                           kDaemon));
  WriteWorker(kUntilAServerIsStartedAgain);
  WEIR_ASSERT_OK_AND_ASSIGN(const int code, Run());
  EXPECT_EQ(code, 0) << output_.str();
  EXPECT_THAT(Starts("weir-server"), Contains(HasSubstr("--listen 127.0.0.1:7")));
}

TEST_F(JobRunTest, ADaemonThatDoesNotComeUpIsReportedWithItsErrors) {
  WriteProgram("weir-server",
               "echo '2026-12-01T00:05:49.123 I weir-server begins'; echo 'cannot bind'; exit 1");
  WriteWorker("exit 0");
  EXPECT_THAT(Run(), HasStatus(absl::StatusCode::kUnavailable,
                               AllOf(HasSubstr("server-0 ended before it served; its log: "),
                                     HasSubstr("logs/server-0.log\n  cannot bind"),
                                     Not(HasSubstr("begins")))));
  EXPECT_THAT(Starts("weir-worker"), SizeIs(1));
  EXPECT_THAT(output_.str(), Not(HasSubstr("is replaced")));
}

TEST_F(JobRunTest, ACoordinatorThatIsNotReachedIsToldBeforeAnyWorkerStarts) {
  WriteWorker("exit 0");
  coordinator_ = "127.0.0.1:1";
  EXPECT_THAT(Run(),
              HasStatus(absl::StatusCode::kUnavailable,
                        AllOf(HasSubstr("coordinator 127.0.0.1:1"),
                              HasSubstr("no worker was started"), HasSubstr("--own-cluster"))));
  EXPECT_THAT(Starts("weir-worker"), SizeIs(1));  // to print the job
  EXPECT_THAT(output_.str(), HasSubstr("On the cluster of the coordinator at 127.0.0.1:1."));
}

TEST_F(JobRunTest, AWorkerThatDoesNotReachTheClusterIsNotReplaced) {
  WriteWorker("exit 6");
  EXPECT_EQ(*Run(), 6);
  EXPECT_THAT(Starts("weir-worker"), SizeIs(3));
}

TEST_F(JobRunTest, ARefusedRunSaysSoOnceAndLeavesTheEarlierResultAlone) {
  LeaveEarlierResult();
  WriteWorker("echo 'weir-worker: job fake is finished'; exit 3");
  EXPECT_EQ(*Run(), 3);
  EXPECT_EQ(Count("job fake is finished"), 1) << output_.str();
  EXPECT_EQ(Count("ended with exit status 3"), 1) << output_.str();
  EXPECT_THAT(output_.str(), Not(HasSubstr("replaced")));
  EXPECT_THAT(output_.str(),
              AllOf(HasSubstr("ended with exit status 3: the cluster refused the"),
                    EndsWith(absl::StrCat("\nfailed: the cluster refused the job (exit "
                                          "status 3); logs: ",
                                          Left("logs"), "\n"))));
  EXPECT_THAT(output_.str(), Not(HasSubstr("run folder")));
  EXPECT_EQ(Read("summary.json"), "{\"test_accuracy\": 0.9}\n");
  EXPECT_EQ(Read("job.yaml"), "name: fake # as it was then\n");
  EXPECT_EQ(Read("loss.dat"), "");
}

TEST_F(JobRunTest, AnErrorThatAllWorkersLogAndEndWithIsSaidOnce) {
  WriteWorker(
      "echo '2026-12-01T00:05:49.123 E weir-worker no data'; "
      "echo 'weir-worker: no data'; exit 5");
  EXPECT_EQ(*Run(), 5);
  EXPECT_EQ(Count("no data"), 1) << output_.str();
  EXPECT_EQ(Count("ended with exit status 5"), 1) << output_.str();
}

// The other one goes on until it has seen the first one end.
TEST_F(JobRunTest, ARefusalOfOneWorkerIsToldWithoutAWordOfReplacing) {
  WriteWorker(R"sh(
case "$*" in *"--rank 0"*) echo $$ >refused.pid; exit 3 ;; esac
while [ ! -s refused.pid ] || kill -0 "$(cat refused.pid)" 2>/dev/null; do sleep 0.02; done
sleep 0.5
)sh");
  EXPECT_EQ(*Run(), 3);
  EXPECT_THAT(output_.str(), AllOf(HasSubstr("worker-0 ended with exit status 3"),
                                   Not(HasSubstr("replaced")), Not(HasSubstr("goes on"))));
}

TEST_F(JobRunTest, ARunThatTrainedAndFailedLeavesItsOwnSummaryWithTheReason) {
  LeaveEarlierResult();
  WriteWorker("echo '{\"epoch\": 2, \"loss\": 0.4}' >>runs/fake/metrics.jsonl; kill -9 $$");
  EXPECT_EQ(*Run(), 1);
  EXPECT_THAT(Read("summary.json"),
              AllOf(HasSubstr("\"failure\": \"no worker is left; worker-"),
                    HasSubstr("signal 9 (Killed)"), Not(HasSubstr("test_accuracy"))));
  EXPECT_THAT(output_.str(), AllOf(HasSubstr("\nfailed: no worker is left; worker-"),
                                   Not(HasSubstr("run folder"))));
}

TEST_F(JobRunTest, TheWorkersSummaryIsTheRunsAlsoWhereAnEarlierOneLies) {
  LeaveEarlierResult();
  WriteWorker("echo '{\"test_accuracy\": 0.5}' >runs/fake/summary.json; exit 0");
  EXPECT_EQ(*Run(), 0);
  EXPECT_THAT(Read("summary.json"),
              AllOf(HasSubstr("\"test_accuracy\": 0.5"), HasSubstr("\"job\": \"fake\""),
                    Not(HasSubstr("failure"))));
  EXPECT_THAT(output_.str(), AllOf(HasSubstr("test accuracy  0.5000"), HasSubstr("run folder"),
                                   Not(HasSubstr("failed:"))));
}

TEST_F(JobRunTest, AWorkerThatIsNotReplacedAgainIsNamedWithHowManyGoOn) {
  // Rank 1 goes on until the run has taken notice of the second death of rank 0, and a little more.
  WriteWorker(R"sh(
case "$*" in *"--rank 0"*) echo $$ >"dead-$starts"; kill -9 $$ ;; esac
until [ -s dead-2 ] && ! kill -0 "$(cat dead-2)" 2>/dev/null; do sleep 0.02; done
sleep 0.2
)sh");
  EXPECT_EQ(*Run(), 1);
  EXPECT_THAT(output_.str(), HasSubstr("worker-0 is not replaced again; 1 worker goes on.\n"));
  EXPECT_THAT(output_.str(),
              EndsWith(absl::StrCat("\nfailed: no worker is left; worker-0 ended with "
                                    "signal 9 (Killed); logs: ",
                                    Left("logs"), "\n")));
}

TEST_F(JobRunTest, WantOfDataIsToldApartFromABadJob) {
  WriteProgram("weir-worker", "echo 'weir-worker: train: cannot be opened'; exit 5");
  const auto ended = Run();
  EXPECT_THAT(ended, HasStatus(absl::StatusCode::kDataLoss, "train: cannot be opened"));
  EXPECT_EQ(RunExitOf(ended.status()), RunExit::kData);
  WriteProgram("weir-worker", "echo 'weir-worker: no such key'; exit 2");
  EXPECT_EQ(RunExitOf(Run().status()), RunExit::kBadJob);
}

}  // namespace
}  // namespace weir
