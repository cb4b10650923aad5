// SPDX-License-Identifier: Apache-2.0
#include "cli/reports.h"

#include <gmock/gmock.h>

#include "cli/job_progress.h"
#include "cli/loss_curve.h"
#include "cli/resolved_job.h"
#include "cli/run_summary.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Two workers, half way through 4 epochs of 1,000 examples.
v1::JobStatus HalfWay() {
  v1::JobStatus job;
  v1::JobView& view = *job.mutable_view();
  view.set_name("mnist");
  view.set_state(v1::JOB_STATE_RUNNING);
  view.set_attempt(1);
  v1::JobSpec& spec = *view.mutable_spec();
  spec.set_workers(2);
  spec.mutable_regime()->set_kind(v1::REGIME_ASYNC);
  spec.mutable_length()->set_epochs(4);
  spec.set_train_examples(1000);
  spec.mutable_data()->mutable_batch()->set_global(50);  // 25 of each: 40 pushes an epoch
  for (int rank = 0; rank < 2; ++rank) {
    view.add_members()->set_rank(rank);
    v1::WorkerStatus& worker = *job.add_workers();
    worker.set_rank(rank);
    worker.mutable_progress()->set_step(30 + rank);
    worker.mutable_progress()->set_examples(1000);
    worker.mutable_progress()->set_samples_per_second(50);
    worker.mutable_progress()->set_staleness(1.5);
    (*worker.mutable_progress()->mutable_metrics())["loss"] = 0.25 + 0.5 * rank;
  }
  job.set_step(80);
  job.set_examples(2000);
  return job;
}

TEST(WorkersProgress, SpeedIsASumAndLossAMeanOverTheWorkers) {
  const WorkersProgress progress = ProgressOfWorkers(HalfWay());
  EXPECT_EQ(progress.workers, 2);
  EXPECT_EQ(progress.loss, 0.5);
  EXPECT_EQ(progress.samples_per_second, 100);
  EXPECT_EQ(progress.staleness, 1.5);
}

// As after a death: the newcomer has a step by its heartbeat, and no report.
TEST(WorkersProgress, AWorkerWithoutAReportCountsNeitherInTheLossNorInTheRates) {
  v1::JobStatus job = HalfWay();
  v1::Progress& newcomer = *job.mutable_workers(1)->mutable_progress();
  newcomer.Clear();
  newcomer.set_step(7);
  const WorkersProgress progress = ProgressOfWorkers(job);
  EXPECT_EQ(progress.workers, 1);
  EXPECT_EQ(progress.loss, 0.25);
  EXPECT_EQ(progress.staleness, 1.5);
}

TEST(ProgressMeter, TheTimeLeftFollowsFromTheJobsExamplesAndTheRecentSpeed) {
  v1::JobStatus job = HalfWay();
  job.set_step(120);
  job.set_examples(3000);
  EXPECT_EQ(ProgressMeter().Line(job),
            "epoch 3.00 of 4  step 120  loss 0.5000  100 samples/s  staleness 1.50  0:10 left");
}

TEST(ProgressMeter, ALossThatNobodyHasToldIsNotZero) {
  v1::JobStatus job = HalfWay();
  for (auto& worker : *job.mutable_workers()) worker.mutable_progress()->Clear();
  EXPECT_EQ(ProgressMeter().Line(job), "epoch 2.00 of 4  step 80  no worker has reported yet");
  job.clear_step();
  EXPECT_EQ(ProgressMeter().Line(job), "running: no step yet");
}

TEST(ProgressMeter, ARollbackUndoesWhatWasSeenThoughTheCoordinatorHasForgottenIt) {
  v1::JobStatus job = HalfWay();
  ProgressMeter meter;
  (void)meter.Rollback(job);
  (void)meter.Line(job);
  job.mutable_view()->set_attempt(3);
  EXPECT_EQ(meter.Rollback(job),
            "Rolled back: the job goes on from its first values; 80 steps undone.");
}

TEST(ProgressMeter, AJobWithoutATrainingSetHasNoEpochs) {
  v1::JobStatus job = HalfWay();
  job.mutable_view()->mutable_spec()->clear_train_examples();
  job.mutable_view()->mutable_spec()->clear_length();
  EXPECT_EQ(ProgressMeter().Line(job), "step 80  loss 0.5000  100 samples/s  staleness 1.50");
}

// The coordinator was killed, and hears of the last seconds with the next reports.
TEST(ProgressMeter, NothingGoesBackWithinAnAttempt) {
  v1::JobStatus job = HalfWay();
  ProgressMeter meter;
  (void)meter.Line(job);
  job.set_step(70);
  job.set_examples(1750);
  EXPECT_THAT(meter.Line(job), HasSubstr("epoch 2.00 of 4  step 80  loss 0.5000  "));
  job.mutable_view()->set_attempt(2);
  EXPECT_THAT(meter.Line(job), HasSubstr("epoch 1.75 of 4  step 70  loss 0.5000  "));
}

TEST(ProgressMeter, ARollbackIsSaidOnce) {
  v1::JobStatus job = HalfWay();
  ProgressMeter meter;
  EXPECT_EQ(meter.Rollback(job), std::nullopt);
  job.mutable_view()->set_attempt(2);
  v1::ResumePoint& resume = *job.mutable_view()->mutable_resume();
  resume.set_checkpoint_id("00000002-1");
  resume.set_step(30);
  resume.set_lost_steps(31);
  EXPECT_EQ(meter.Rollback(job),
            "Rolled back: the job goes on from checkpoint 00000002-1 (step 30); 31 steps undone.");
  EXPECT_EQ(meter.Rollback(job), std::nullopt);
  job.mutable_view()->set_attempt(3);
  resume.set_lost_steps(32);
  EXPECT_EQ(meter.Rollback(job),
            "Rolled back: the job goes on from checkpoint 00000002-1 (step 30); 1 step undone.");
}

TEST(ProgressMeter, AJobThatDoesNotRunSaysWhy) {
  v1::JobStatus job = HalfWay();
  job.mutable_view()->set_state(v1::JOB_STATE_WAITING);
  job.mutable_view()->set_message("1 of 2 workers are here");
  EXPECT_EQ(ProgressMeter().Line(job), "waiting: 1 of 2 workers are here");
}

TEST(Reports, AJobIsARow) {
  v1::ListJobsReply jobs;
  *jobs.add_jobs() = HalfWay();
  EXPECT_THAT(JobsReport(jobs), AllOf(HasSubstr("mnist"), HasSubstr("running"), HasSubstr("async"),
                                      HasSubstr("2/2")));
  EXPECT_EQ(JobsReport({}), "No jobs.\n");
}

TEST(Reports, AJobWithoutWorkersHasTheStepAndTheExamplesThatItHasDone) {
  v1::ListJobsReply jobs;
  v1::JobStatus& job = *jobs.add_jobs();
  job = HalfWay();
  job.clear_workers();
  job.mutable_view()->clear_members();
  EXPECT_THAT(JobsReport(jobs), HasSubstr("running  async       0/2    80     2,000     -"));
  job.mutable_view()->set_state(v1::JOB_STATE_FINISHED);
  EXPECT_THAT(JobsReport(jobs), HasSubstr("finished  async       0/2    80     2,000     -"));
}

TEST(Reports, AServerIsARowWithItsMemory) {
  v1::StatusReply status;
  v1::ServerStatus& server = *status.add_servers();
  server.mutable_server()->set_name("server-0");
  server.set_live(true);
  server.set_memory_bytes(3 << 20);
  server.set_memory_limit_bytes(uint64_t{4} << 30);
  EXPECT_THAT(StatusReport(status),
              AllOf(HasSubstr("MEMORY  MEMORY LIMIT"), HasSubstr("3.0 MiB"), HasSubstr("4.0 GiB")));
  server.set_live(false);
  EXPECT_THAT(StatusReport(status), AllOf(HasSubstr("gone"), Not(HasSubstr("3.0 MiB"))));
  WEIR_ASSERT_OK_AND_ASSIGN(const std::string json, ToJson(status));
  EXPECT_THAT(json, HasSubstr("\"memory_bytes\": \"3145728\""));
}

TEST(Reports, AJobsTornPushesAreCounted) {
  v1::JobStatus job = HalfWay();
  EXPECT_THAT(JobReport(job), HasSubstr("Torn pushes: 0\n"));
  job.set_torn_pushes(1234);
  EXPECT_THAT(JobReport(job), HasSubstr("Torn pushes: 1,234, counted in part"));
}

TEST(Reports, AJobSaysWhoWaitsForWhomInWhichGroupAndWhatCameLate) {
  v1::JobStatus job = HalfWay();
  EXPECT_THAT(JobReport(job), Not(HasSubstr("Late pushes")));
  v1::WorkerStatus& worker = *job.mutable_workers(0);
  worker.add_waits_for(2);
  worker.add_waits_for(3);
  worker.set_sync_group(1);
  worker.mutable_progress()->set_samples_per_second(11339.6);
  EXPECT_THAT(JobReport(job), AllOf(HasSubstr("WAITS FOR  GROUP"), HasSubstr("rank 2, 3      1"),
                                    HasSubstr("11,340")));
  job.mutable_view()->mutable_spec()->mutable_regime()->set_kind(v1::REGIME_SYNC);
  job.mutable_view()->mutable_spec()->mutable_regime()->set_backup_workers(1);
  job.set_late_pushes(17);
  EXPECT_THAT(JobReport(job),
              AllOf(HasSubstr("sync, 1 backup worker"), HasSubstr("Late pushes: 17, dropped")));
}

TEST(Reports, JsonHasTheNamesOfTheProtoAndEveryScalar) {
  WEIR_ASSERT_OK_AND_ASSIGN(const std::string json, ToJson(v1::StatusReply()));
  EXPECT_THAT(json, AllOf(HasSubstr("\"term\": \"0\""), HasSubstr("\"servers\": []")));
}

TEST(RunSummary, TheFactsOfTheRunAreAddedToTheWorkersSummary) {
  WEIR_ASSERT_OK_AND_ASSIGN(
      const std::string json,
      SummaryJson(R"({"test_accuracy": 0.91, "regime": "?"})",
                  {.job = "mnist", .regime = "async", .servers = 2, .workers = 3}));
  EXPECT_THAT(json, AllOf(HasSubstr("\"test_accuracy\": 0.91"), HasSubstr("\"regime\": \"async\""),
                          HasSubstr("\"servers\": 2"), HasSubstr("\"workers\": 3")));
  WEIR_ASSERT_OK_AND_ASSIGN(const std::string text, SummaryText(json));
  EXPECT_THAT(text, AllOf(HasSubstr("mnist: async, 3 workers, 2 servers"), HasSubstr("0.9100"),
                          Not(HasSubstr("train loss"))));
}

TEST(RunSummary, WhatWasLostIsSaid) {
  WEIR_ASSERT_OK_AND_ASSIGN(const std::string json,
                            SummaryJson(R"({"lost_steps": 40})", {.restarted_daemons = 1}));
  WEIR_ASSERT_OK_AND_ASSIGN(const std::string text, SummaryText(json));
  EXPECT_THAT(text, AllOf(HasSubstr("1 daemon restarted"), HasSubstr("40 steps undone")));
}

TEST(RunSummary, WhereAStepsTimeGoesIsSaidInShares) {
  WEIR_ASSERT_OK_AND_ASSIGN(
      const std::string text,
      SummaryText(R"({"step_seconds": {"input": 0.001, "pull": 0.002, "compute": 0.01,
                                       "push": 0.003, "wait": 0.004}})"));
  EXPECT_THAT(text, HasSubstr("a step         20.0 ms: input 5 %, pull 10 %, compute 50 %, "
                              "push 15 %, wait 20 %\n"));
  WEIR_ASSERT_OK_AND_ASSIGN(const std::string untimed, SummaryText("{}"));
  EXPECT_THAT(untimed, Not(HasSubstr("a step")));
}

TEST(RunSummary, AWorkersSummaryThatIsNoObjectIsRefused) {
  EXPECT_THAT(SummaryJson("[1", {}), HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("")));
}

TEST(LossCurve, PointsAreInTheOrderOfEpochsAndBrokenLinesArePassedOver) {
  EXPECT_EQ(CurvePoints("{\"epoch\": 0.5, \"loss\": 0.5, \"accuracy\": 0.25}\n"
                        "{\"epoch\": 0.25, \"loss\": 1}\n"
                        "{\"epoch\": 1, \"test_accuracy\": 0.75}\n"
                        "{\"note\": 1}\n"
                        "{\"epoch\": 2, \"lo"),
            "0.25 1 nan\n0.5 0.5 0.25\n\n\n1 0.75\n");
}

TEST(LossCurve, WorkersAreOneLineTheirMean) {
  EXPECT_EQ(CurvePoints("{\"worker\": 0, \"epoch\": 0.25, \"loss\": 2, \"accuracy\": 0.5}\n"
                        "{\"worker\": 1, \"epoch\": 0.75, \"loss\": 3, \"accuracy\": 0.25}\n"
                        "{\"worker\": 1, \"epoch\": 1, \"loss\": 1}\n"
                        "{\"worker\": 0, \"epoch\": 2, \"loss\": 0.5, \"accuracy\": 0.75}\n"
                        "{\"worker\": 0, \"epoch\": 3, \"loss\": 0.25, \"accuracy\": 1}\n"),
            "0.5 2.5 0.375\n1.5 0.75 0.75\n3 0.25 1\n\n\n");
}

TEST(ResolvedJob, NameWorkersAndRegimeAreRead) {
  WEIR_ASSERT_OK_AND_ASSIGN(const ResolvedJob job,
                            ParseResolvedJob("name: a\nworkers: 3\nregime: sync\n"));
  EXPECT_EQ(job.name, "a");
  EXPECT_EQ(job.workers, 3);
  EXPECT_EQ(job.regime, "sync");
  WEIR_ASSERT_OK_AND_ASSIGN(
      const ResolvedJob bounded,
      ParseResolvedJob("name: a\nworkers: 3\nregime: {bounded_staleness: 3}\n"));
  EXPECT_EQ(bounded.regime, "bounded_staleness 3");
}

TEST(ResolvedJob, AReplicaClassIsReadAndAStockModelHasNone) {
  WEIR_ASSERT_OK_AND_ASSIGN(const ResolvedJob stock,
                            ParseResolvedJob("name: a\nworkers: 3\nmodel: {builtin: mlp}\n"));
  EXPECT_EQ(stock.replica, "");
  WEIR_ASSERT_OK_AND_ASSIGN(
      const ResolvedJob own,
      ParseResolvedJob("name: a\nworkers: 3\nmodel: {replica: \"mine\", options: {}}\n"));
  EXPECT_EQ(own.replica, "mine");
}

TEST(ResolvedJob, TextWithoutANameIsRefused) {
  EXPECT_THAT(ParseResolvedJob("workers: 3\n"),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("weir-worker")));
}

TEST(Reports, StopSaysWhatItHasFoundAndWhatIsSaved) {
  v1::JobStatus running;
  running.mutable_view()->set_name("j");
  running.mutable_view()->set_state(v1::JOB_STATE_RUNNING);
  v1::JobStatus orphan = running;
  running.mutable_view()->add_members();
  v1::JobStatus stopped = orphan;
  stopped.mutable_view()->set_state(v1::JOB_STATE_STOPPED);
  EXPECT_EQ(StopReport(running, running),
            "The workers of j stop after their current step; then it is saved.\n");
  EXPECT_EQ(StopReport(orphan, orphan), "j has no workers; it is saved and stopped.\n");
  EXPECT_EQ(StopReport(running, stopped), "j is stopped; it has no checkpoint.\n");
  v1::JobStatus waiting = running;
  waiting.mutable_view()->set_state(v1::JOB_STATE_WAITING);
  EXPECT_EQ(StopReport(waiting, stopped),
            "j had not begun and is stopped; it has no checkpoint.\n");
  EXPECT_EQ(StopReport(orphan, stopped),
            "j had no workers and is stopped; it has no checkpoint.\n");
  stopped.set_latest_checkpoint("00000002-1");
  EXPECT_EQ(StopReport(stopped, stopped),
            "j is stopped already; its newest checkpoint is 00000002-1.\n");
  v1::JobStatus finished = stopped;
  finished.mutable_view()->set_state(v1::JOB_STATE_FINISHED);
  EXPECT_EQ(StopReport(finished, finished),
            "j has ended already (finished); its newest checkpoint is 00000002-1.\n");
}

TEST(NothingLeft, IsToldOfARunThatFinishedWhereItBegan) {
  v1::JobStatus job;
  job.mutable_view()->set_state(v1::JOB_STATE_FINISHED);
  EXPECT_EQ(NothingLeftText(job), "") << "it resumed from nothing";
  job.mutable_view()->mutable_resume()->set_checkpoint_id("00000002-1");
  job.mutable_view()->mutable_resume()->set_examples(512);
  job.set_examples(512);
  EXPECT_THAT(NothingLeftText(job), AllOf(HasSubstr("checkpoint 00000002-1"),
                                          HasSubstr("--set epochs=N"), HasSubstr("--replace")));
  job.set_examples(513);
  EXPECT_EQ(NothingLeftText(job), "");
  job.set_examples(512);
  job.mutable_view()->set_state(v1::JOB_STATE_STOPPED);
  EXPECT_EQ(NothingLeftText(job), "");
}

}  // namespace
}  // namespace weir
