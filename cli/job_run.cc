// SPDX-License-Identifier: Apache-2.0
#include "cli/job_run.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/human.h"
#include "cli/loss_curve.h"
#include "cli/run_summary.h"
#include "cli/text_file.h"
#include "common/file_system.h"
#include "common/status_macros.h"

namespace weir {
namespace {

constexpr absl::Duration kProgressInterval = absl::Seconds(1);
constexpr absl::Duration kAskTimeout = absl::Milliseconds(500);
constexpr char kProgressMark[] = " samples/s";
constexpr int kReplacements = 1;  // of one worker
constexpr int kSignalled = 128;   // a program that ends by a signal adds the signal's number
constexpr int kStopped = kSignalled + SIGINT;

// weir-worker's exit statuses between these say that the job, its data or its numbers are bad, or
// that the cluster refuses it: another worker would end alike.
constexpr int kFirstBadJob = 2;
constexpr int kLastBadJob = 5;

bool WouldEndAlike(const ExitState& state) {
  return state.signal == 0 &&
         (state.code == 0 || (state.code >= kFirstBadJob && state.code <= kLastBadJob));
}

std::string WorkerName(int rank) {
  return absl::StrCat("worker-", rank);
}

}  // namespace

JobRun::JobRun(Options options, Console& console)
    : options_(std::move(options)), console_(console), start_(options_.clock->Now()) {}

JobRun::~JobRun() = default;

absl::StatusOr<int> JobRun::Run() {
  std::vector<std::string> overrides = options_.overrides;
  if (options_.workers > 0) overrides.push_back(absl::StrCat("workers=", options_.workers));
  WEIR_ASSIGN_OR_RETURN(
      job_, ResolveJobFile(options_.program_folder + "/weir-worker", options_.job_file, overrides));
  folder_ = absl::StrCat(options_.runs_folder, "/", job_.name);
  WEIR_RETURN_IF_ERROR(WriteTextFile(folder_ + "/job.yaml", job_.text));
  // An earlier run's must not be taken for this one's.
  if (FileSystem::Real().Exists(folder_ + "/summary.json")) {
    WEIR_RETURN_IF_ERROR(FileSystem::Real().RemoveFile(folder_ + "/summary.json"));
  }
  WEIR_RETURN_IF_ERROR(BringUp());
  for (int rank = 0; rank < job_.workers; ++rank) WEIR_RETURN_IF_ERROR(StartWorker(rank));

  const absl::Status supervised = Supervise();
  console_.EndProgress();
  const absl::StatusOr<v1::JobStatus> job = AskForJob();
  const absl::Status concluded = Conclude(job);
  WEIR_RETURN_IF_ERROR(supervised);
  WEIR_RETURN_IF_ERROR(concluded);
  const int code = ExitCode(job);
  if (code == kStopped) console_.Line("The job was stopped before its end.");
  return code;
}

absl::Status JobRun::BringUp() {
  const std::string logs = folder_ + "/logs";
  group_ = std::make_unique<ProcessGroup>(ProcessGroup::Options{
      .log_folder = logs,
      .on_line = [this](const auto& name, const auto& line) { TakeLine(name, line); },
      .on_exit = [this](const auto& name, const auto& state) { TakeExit(name, state); }});
  coordinator_ = options_.coordinator;
  if (coordinator_.empty()) {
    cluster_ = std::make_unique<LocalCluster>(
        LocalCluster::Options{.program_folder = options_.program_folder,
                              .data_folder = folder_ + "/cluster",
                              .logs_folder = logs,
                              .servers = options_.servers,
                              .log_level = options_.log_level,
                              .clock = options_.clock,
                              .say = [this](const auto& text) { console_.Line(text); }},
        *group_);
    WEIR_RETURN_IF_ERROR(cluster_->Start());
    coordinator_ = cluster_->coordinator();
    console_.Line(absl::StrCat("Started a coordinator at ", coordinator_, " and ",
                               HumanCount(options_.servers, "server"), "."));
  }
  WEIR_ASSIGN_OR_RETURN(
      client_, CoordinatorClient::Create({.address = coordinator_, .clock = options_.clock}));
  return absl::OkStatus();
}

absl::Status JobRun::StartWorker(int rank) {
  const std::string name = WorkerName(rank);
  workers_[name].ended.reset();
  ChildOptions worker{
      .program = options_.program_folder + "/weir-worker",
      .arguments = {"--job", options_.job_file, "--coordinator", coordinator_, "--rank",
                    absl::StrCat(rank), "--run-dir", folder_, "--log-level", options_.log_level,
                    "--set", absl::StrCat("workers=", job_.workers)}};
  for (const std::string& override : options_.overrides) {
    worker.arguments.insert(worker.arguments.end(), {"--set", override});
  }
  return group_->Start(name, worker);
}

void JobRun::TakeLine(const std::string& name, const std::string& line) {
  if (cluster_) cluster_->TakeLine(name, line);
  // Each worker's own progress stays in its log: the one shown here is the whole job's.
  if (workers_.count(name) != 0 && !absl::StrContains(line, kProgressMark)) {
    console_.Line(name, line);
  }
}

void JobRun::TakeExit(const std::string& name, const ExitState& state) {
  if (cluster_) cluster_->TakeExit(name, state);
  const auto worker = workers_.find(name);
  if (worker == workers_.end()) return;
  worker->second.ended = state;
  if (state.ok()) return;
  if (stops_forwarded_ > 0 && (state.signal != 0 || state.code > kSignalled)) {
    console_.Line(absl::StrCat(name, " has stopped."));
    return;
  }
  console_.Line(absl::StrCat(name, " ended with ", state.ToString(), ". Its last lines:\n  ",
                             absl::StrJoin(group_->LastLines(name), "\n  ")));
}

void JobRun::ReplaceDeadWorkers() {
  if (options_.stop_requests() > 0) return;
  for (int rank = 0; rank < job_.workers; ++rank) {
    Worker& worker = workers_[WorkerName(rank)];
    if (!worker.ended || WouldEndAlike(*worker.ended)) continue;
    if (worker.replacements >= kReplacements) continue;
    ++worker.replacements;
    console_.Line(absl::StrCat(WorkerName(rank), " is replaced by a new one."));
    const absl::Status started = StartWorker(rank);
    if (!started.ok()) console_.Line(std::string(started.message()));
  }
}

absl::Status JobRun::Supervise() {
  const auto some_work = [&] {
    return std::any_of(workers_.begin(), workers_.end(),
                       [&](const auto& worker) { return group_->Runs(worker.first); });
  };
  while (some_work()) {
    group_->Poll(absl::Milliseconds(100));
    if (cluster_) WEIR_RETURN_IF_ERROR(cluster_->Tend());
    ForwardStopRequests();
    ReplaceDeadWorkers();
    ShowProgress();
  }
  return absl::OkStatus();
}

void JobRun::ForwardStopRequests() {
  const int requests = std::min(options_.stop_requests(), 2);
  if (requests == stops_forwarded_) return;
  stops_forwarded_ = requests;
  console_.Line(requests == 1 ? "Stopping after the current step; once more to kill the workers."
                              : "Killing the workers.");
  for (const auto& worker : workers_) {
    group_->Signal(worker.first, requests == 1 ? SIGTERM : SIGKILL);
  }
}

void JobRun::ShowProgress() {
  const absl::Time now = options_.clock->Now();
  if (now < next_progress_) return;
  next_progress_ = now + kProgressInterval;
  const absl::StatusOr<v1::JobStatus> job = AskForJob();
  if (!job.ok()) return;
  if (const auto rollback = meter_.Rollback(*job)) console_.Line(*rollback);
  console_.Progress(meter_.Line(*job));
}

absl::StatusOr<v1::JobStatus> JobRun::AskForJob() {
  v1::ShowJobRequest request;
  request.set_job(job_.name);
  WEIR_ASSIGN_OR_RETURN(
      const v1::ShowJobReply reply,
      client_->Call(&CoordinatorStub::ShowJob, request, options_.clock->Now() + kAskTimeout));
  return reply.job();
}

int JobRun::ExitCode(const absl::StatusOr<v1::JobStatus>& job) const {
  const auto ended_well = [](const auto& worker) {
    return worker.second.ended && worker.second.ended->ok();
  };
  // Not by the job's state alone: it may be that of an earlier run, whose name was taken.
  const bool finished = job.ok() && job->view().state() == v1::JOB_STATE_FINISHED &&
                        std::any_of(workers_.begin(), workers_.end(), ended_well);
  if (finished) return 0;
  if (stops_forwarded_ > 0) return kStopped;
  for (const auto& [name, worker] : workers_) {
    if (worker.ended && worker.ended->code != 0) return worker.ended->code;
  }
  return std::all_of(workers_.begin(), workers_.end(), ended_well) ? 0 : 1;
}

absl::Status JobRun::Conclude(const absl::StatusOr<v1::JobStatus>& job) {
  RunFacts facts{.job = job_.name,
                 .regime = job_.regime,
                 .workers = job_.workers,
                 .wall = options_.clock->Now() - start_,
                 .folder = folder_};
  if (job.ok()) {
    facts.checkpoint = job->latest_checkpoint();
    facts.servers = job->view().shard_map().servers_size();
  }
  for (const auto& worker : workers_) facts.replaced_workers += worker.second.replacements;
  if (cluster_) {
    if (!facts.checkpoint.empty()) {
      facts.manifest = absl::StrCat(folder_, "/cluster/coordinator/checkpoints/", job_.name, "/",
                                    facts.checkpoint, ".manifest");
    }
    for (const LocalCluster::Process& process : cluster_->processes()) {
      facts.restarted_daemons += process.restarts;
    }
    for (const std::string& name : cluster_->Stop()) {
      console_.Line(absl::StrCat(name, " did not end when asked to and was killed."));
    }
  }
  const absl::StatusOr<std::string> curve = DrawLossCurve(folder_, job_.name);
  if (curve.ok()) {
    facts.loss_curve = *curve;
  } else {
    console_.Line(absl::StrCat("No loss curve: ", curve.status().message()));
  }
  const absl::StatusOr<std::string> written = ReadTextFile(folder_ + "/summary.json");
  WEIR_ASSIGN_OR_RETURN(const std::string summary,
                        SummaryJson(written.ok() ? *written : "", facts));
  WEIR_RETURN_IF_ERROR(WriteTextFile(folder_ + "/summary.json", summary));
  if (!options_.summary_file.empty()) {
    WEIR_RETURN_IF_ERROR(WriteTextFile(options_.summary_file, summary));
  }
  WEIR_ASSIGN_OR_RETURN(const std::string text, SummaryText(summary));
  console_.Line("\n" + text);
  return absl::OkStatus();
}

}  // namespace weir
