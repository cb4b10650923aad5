// SPDX-License-Identifier: Apache-2.0
#include "cli/job_stop.h"

#include <gmock/gmock.h>

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

v1::JobStatus Running(const std::string& host) {
  v1::JobStatus job;
  job.mutable_view()->set_state(v1::JOB_STATE_RUNNING);
  job.add_workers()->set_host(host);
  return job;
}

TEST(JobStop, OnlyAJobThatOneOfOurWorkersTrainsIsOursToStop) {
  EXPECT_TRUE(IsOursToStop(Running("here:123"), {7, 123}));
  EXPECT_FALSE(IsOursToStop(Running("here:123"), {7, 23}));
  EXPECT_FALSE(IsOursToStop(Running("here:123"), {}));
  v1::JobStatus waiting = Running("here:123");
  waiting.mutable_view()->set_state(v1::JOB_STATE_WAITING);
  EXPECT_FALSE(IsOursToStop(waiting, {123})) << "there is nothing to save";
  v1::JobStatus stopping = Running("here:123");
  stopping.mutable_view()->set_stop(true);
  EXPECT_FALSE(IsOursToStop(stopping, {123}));
}

TEST(JobStop, TheCommandThatGoesOnIsTheRunsOwnWithResumeAuto) {
  JobRun::Options options;
  options.job_file = "job.yaml";
  options.overrides = {"epochs=3", "replace=true", "resume=latest"};
  options.workers = 2;
  options.servers = 3;
  EXPECT_EQ(GoOnCommand(options, true),
            "weir run job.yaml --own-cluster --servers 3 --workers 2 --set 'epochs=3' "
            "--resume auto");
  options.coordinator = "h:1";
  EXPECT_EQ(GoOnCommand(options, false),
            "weir run job.yaml --coordinator h:1 --workers 2 --set 'epochs=3' --resume auto");
  options.coordinator_is_local = true;
  options.runs_folder = "elsewhere";
  EXPECT_THAT(GoOnCommand(options, false),
              AllOf(HasSubstr("--runs elsewhere"), Not(HasSubstr("--coordinator"))));
  options.program = "bin/mine";
  options.command = "bin/weir";
  EXPECT_THAT(GoOnCommand(options, false), StartsWith("bin/weir run job.yaml --program bin/mine"));
}

TEST(JobStop, TheCommandThatGoesOnIsOneThatAShellReadsAsTheRunDid) {
  JobRun::Options options;
  options.job_file = "my jobs/it's one.yaml";
  options.runs_folder = "$HOME/runs";
  options.overrides = {"name=it's"};
  EXPECT_EQ(GoOnCommand(options, true),
            R"(weir run 'my jobs/it'\''s one.yaml' --own-cluster --runs '$HOME/runs' )"
            R"(--set 'name=it'\''s' --resume auto)");
}

TEST(JobStop, WhoStoppedAJobLearnsOfItsCheckpointAndHowToGoOn) {
  v1::Manifest newest;
  EXPECT_THAT(StoppedText(newest, "CMD"), AllOf(HasSubstr("no checkpoint"), Not(HasSubstr("CMD"))));
  newest.set_id("00000004-1");
  newest.set_step(1231);
  EXPECT_THAT(StoppedText(newest, "CMD"),
              HasSubstr("00000004-1, step 1,231; go on from it with:\n  CMD"));
}

}  // namespace
}  // namespace weir
