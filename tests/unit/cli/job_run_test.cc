// SPDX-License-Identifier: Apache-2.0
// Runs over shell scripts in the places of the daemons and the worker.
#include "cli/job_run.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/text_file.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
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
         .coordinator = {},
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

  const std::string folder_ = ::testing::TempDir() + "/weir_job_run_" +
                              ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::ostringstream output_;
  bool stop_ = false;  // ask to, when the workers have been started
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

TEST_F(JobRunTest, AJobThatIsRefusedStartsNothing) {
  WriteProgram("weir-worker", "echo 'weir-worker: job.yaml:3: no such key'; exit 2");
  EXPECT_THAT(Run(), HasStatus(absl::StatusCode::kInvalidArgument, "job.yaml:3: no such key"));
  EXPECT_THAT(Starts("weir-coordinator"), SizeIs(0));
}

TEST_F(JobRunTest, AServerThatDiesIsStartedAgainWithItsNameDataAndAddress) {
  // Its second command line has the address at which it has served.
  WriteProgram("weir-server", absl::StrCat(R"sh(
case "$*" in *server-1*127.0.0.1:0*)
  echo "weir-server ready address=127.0.0.1:7"; sleep 0.2; kill -9 $$ ;; esac
)sh",
                                           kDaemon));
  WriteWorker("while [ \"$(wc -l <weir-server.starts)\" -lt 3 ]; do sleep 0.05; done");
  EXPECT_EQ(*Run(), 0) << output_.str();
  const std::vector<std::string> starts = Starts("weir-server");
  ASSERT_THAT(starts, SizeIs(3));
  EXPECT_THAT(starts[2],
              AllOf(HasSubstr("--name server-1"), HasSubstr("cluster/server-1"),
                    HasSubstr("--listen 127.0.0.1:7"), HasSubstr("--coordinator 127.0.0.1:1")));
  EXPECT_THAT(output_.str(), HasSubstr("server-1 ended with signal 9"));
}

TEST_F(JobRunTest, ADaemonThatDoesNotComeUpIsReportedWithItsLastLines) {
  WriteProgram("weir-server", "echo 'cannot bind'; exit 1");
  WriteWorker("exit 0");
  EXPECT_THAT(Run(), HasStatus(absl::StatusCode::kUnavailable,
                               AllOf(HasSubstr("server-0"), HasSubstr("cannot bind"))));
  EXPECT_THAT(Starts("weir-worker"), SizeIs(1));
  EXPECT_THAT(output_.str(), Not(HasSubstr("is replaced")));
}

}  // namespace
}  // namespace weir
