// SPDX-License-Identifier: Apache-2.0
#include "cli/job_run.h"

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/error_lines.h"
#include "cli/exit_code.h"
#include "cli/human.h"
#include "cli/job_stop.h"
#include "cli/past_run.h"
#include "cli/reports.h"
#include "cli/shell_word.h"
#include "cli/text_file.h"
#include "common/status_macros.h"

namespace weir {
namespace {

constexpr absl::Duration kProgressInterval = absl::Seconds(1);
constexpr absl::Duration kReachTimeout = absl::Seconds(5);
constexpr char kProgressMark[] = " samples/s";
constexpr int kReplacements = 1;  // of one worker
constexpr int kSignalled = 128;   // a program that ends by a signal adds the signal's number

std::string WorkerName(int rank) {
  return absl::StrCat("worker-", rank);
}

}  // namespace

JobRun::JobRun(Options options, Console& console)
    : options_(std::move(options)), console_(console), start_(options_.clock->Now()) {}

JobRun::~JobRun() = default;

absl::StatusOr<int> JobRun::Run() {
  console_.Line(absl::StrCat("Checking ", options_.job_file, "."));
  std::vector<std::string> overrides = options_.overrides;
  if (options_.workers > 0) overrides.push_back(absl::StrCat("workers=", options_.workers));
  WEIR_ASSIGN_OR_RETURN(job_, ResolveJobFile({.worker_program = WorkerProgram(),
                                              .job_file = options_.job_file,
                                              .overrides = overrides,
                                              .clock = options_.clock}));
  if (!job_.replica.empty() && options_.program.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        options_.job_file, ": it trains the replica class \"", job_.replica,
        "\" of a program of your own: name that with --program PATH (docs/replicator.md)"));
  }
  folder_ = RunFolder(absl::StrCat(options_.runs_folder, "/", job_.name));
  WEIR_RETURN_IF_ERROR(BringUp());
  WEIR_RETURN_IF_ERROR(AskBefore());
  for (int rank = 0; rank < job_.workers; ++rank) WEIR_RETURN_IF_ERROR(StartWorker(rank));

  const absl::Status supervised = Supervise();
  AwaitLastCheckpoint();
  console_.EndProgress();
  const absl::StatusOr<v1::JobStatus> job = AskForJob();
  const Verdict verdict = Judge(job, supervised);
  WEIR_RETURN_IF_ERROR(Conclude(job, verdict));
  return verdict.code;
}

std::string JobRun::WorkerProgram() const {
  return options_.program.empty() ? options_.program_folder + "/weir-worker"
                                  : std::filesystem::absolute(options_.program).string();
}

absl::Status JobRun::BringUp() {
  const std::string logs = folder_.path() + "/logs";
  group_ = std::make_unique<ProcessGroup>(ProcessGroup::Options{
      .log_folder = logs,
      .clock = options_.clock,
      .on_line = [this](const auto& name, const auto& line) { TakeLine(name, line); },
      .on_exit = [this](const auto& name, const auto& state) { TakeExit(name, state); }});
  coordinator_ = options_.coordinator;
  if (!coordinator_.empty()) {
    console_.Line(absl::StrCat("On the ", options_.coordinator_is_local ? "local " : "",
                               "cluster of the coordinator at ", coordinator_, "."));
  } else {
    WEIR_RETURN_IF_ERROR(StartCluster());
  }
  WEIR_ASSIGN_OR_RETURN(
      client_, CoordinatorClient::Create({.address = coordinator_, .clock = options_.clock}));
  return absl::OkStatus();
}

absl::Status JobRun::StartCluster() {
  const std::string folder = ClusterFolder(folder_.path());
  absl::StatusOr<std::unique_ptr<LocalLock>> lock = LocalLock::Take(folder);
  if (absl::IsAlreadyExists(lock.status())) {
    return absl::AlreadyExistsError(absl::StrCat("another run of ", job_.name, " is at work in ",
                                                 folder_.path(), "; `", ShellWord(options_.command),
                                                 " jobs --run-dir ", ShellWord(folder_.path()),
                                                 "` shows it, --runs takes another folder"));
  }
  WEIR_RETURN_IF_ERROR(lock.status());
  lock_ = *std::move(lock);
  cluster_ = std::make_unique<LocalCluster>(
      LocalCluster::Options{.program_folder = options_.program_folder,
                            .data_folder = folder,
                            .logs_folder = folder_.path() + "/logs",
                            .servers = options_.servers,
                            .log_level = options_.log_level,
                            .clock = options_.clock,
                            .say = [this](const auto& text) { console_.Line(text); }},
      *group_);
  WEIR_RETURN_IF_ERROR(cluster_->Start());
  coordinator_ = cluster_->coordinator();
  // For `weir jobs --run-dir` and its like.
  WEIR_RETURN_IF_ERROR(WriteTextFile(LocalStatePath(folder), LocalStateToJson(cluster_->State())));
  console_.Line(absl::StrCat("Started a coordinator at ", coordinator_, " and ",
                             HumanCount(options_.servers, "server"), "."));
  return absl::OkStatus();
}

// Before any worker starts: an address at which nobody answers is told at once, and what an earlier
// job of this name has come to is not taken for this run's.
absl::Status JobRun::AskBefore() {
  v1::ShowJobRequest request;
  request.set_job(job_.name);
  const absl::Time deadline = options_.clock->Now() + kReachTimeout;
  // The run's own coordinator has just said that it serves; another one may be starting again.
  const absl::StatusOr<v1::ShowJobReply> reply =
      cluster_ ? client_->CallOnce(&CoordinatorStub::ShowJob, request, deadline)
               : client_->Call(&CoordinatorStub::ShowJob, request, deadline);
  if (reply.ok()) before_ = reply->job().view();
  if (reply.ok() || cluster_ || absl::IsNotFound(reply.status())) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(reply.status().message(), "; no worker was started. Give --coordinator the ",
                   "address of one that runs, or --own-cluster for a cluster of this run alone"));
}

bool JobRun::IsOfThisRun(const v1::JobStatus& job) const {
  const v1::JobView& view = job.view();
  return view.run_id() != before_.run_id() || IsLive(before_.state()) || IsLive(view.state());
}

absl::Status JobRun::StartWorker(int rank) {
  const std::string name = WorkerName(rank);
  workers_[name].ended.reset();
  ChildOptions worker{
      .program = WorkerProgram(),
      .arguments = {"--job", options_.job_file, "--coordinator", coordinator_, "--rank",
                    absl::StrCat(rank), "--run-dir", folder_.path(), "--log-level",
                    options_.log_level, "--set", absl::StrCat("workers=", job_.workers)}};
  for (const std::string& override : options_.overrides) {
    worker.arguments.insert(worker.arguments.end(), {"--set", override});
  }
  // The run has begun anew already: one that comes later goes on with it.
  if (job_.replace && workers_[name].replacements > 0) {
    worker.arguments.insert(worker.arguments.end(), {"--set", "replace=false"});
  }
  return group_->Start(name, worker);
}

void JobRun::TakeLine(const std::string& name, const std::string& line) {
  if (cluster_) cluster_->TakeLine(name, line);
  // Each worker's own progress stays in its log: the one shown here is the whole job's.
  if (workers_.count(name) == 0 || absl::StrContains(line, kProgressMark)) return;
  // What ends one worker mostly ends the others too: it is said once.
  const std::string error = ErrorOf(line, std::filesystem::path(WorkerProgram()).filename());
  if (!error.empty() && !errors_.insert(error).second) return;
  console_.Line(name, line);
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
  failed_.push_back(name);
  const std::string meaning = MeaningOf(state);
  if (!meaning.empty() && !errors_.insert(meaning).second) return;
  console_.Line(absl::StrCat(name, " ended with ", state.ToString(), meaning.empty() ? "" : ": ",
                             meaning, "."));
}

void JobRun::ReplaceDeadWorkers() {
  if (options_.stop_requests() > 0) return;
  for (int rank = 0; rank < job_.workers; ++rank) {
    Worker& worker = workers_[WorkerName(rank)];
    if (!worker.ended || worker.ended->ok() || worker.given_up) continue;
    if (WouldEndAlike(*worker.ended) || worker.replacements >= kReplacements) {
      GiveUp(WorkerName(rank), worker);
      continue;
    }
    ++worker.replacements;
    console_.Line(absl::StrCat(WorkerName(rank), " is replaced by a new one."));
    const absl::Status started = StartWorker(rank);
    if (!started.ok()) console_.Line(std::string(started.message()));
  }
}

void JobRun::GiveUp(const std::string& name, Worker& worker) {
  worker.given_up = true;
  if (IsRefusal(*worker.ended)) return;  // nobody thinks of replacing it
  const int others = RunningWorkers();
  if (others == 0) return;
  console_.Line(absl::StrCat(name, " is not replaced", worker.replacements > 0 ? " again" : "",
                             "; ", HumanCount(others, "worker"),
                             others == 1 ? " goes on." : " go on."));
}

int JobRun::RunningWorkers() const {
  return static_cast<int>(std::count_if(workers_.begin(), workers_.end(), [&](const auto& worker) {
    return group_->Runs(worker.first);
  }));
}

absl::Status JobRun::Supervise() {
  while (RunningWorkers() > 0) {
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
  if (options_.clock->Now() >= stop_deadline_) {
    stop_deadline_ = absl::InfiniteFuture();
    console_.Line(absl::StrCat("The workers have not stopped within ",
                               absl::FormatDuration(options_.stop_timeout),
                               "; they leave in the midst of a step."));
    SignalWorkers(SIGTERM);
  }
  if (requests == stops_forwarded_) return;
  stops_forwarded_ = requests;
  if (requests == 2) {
    console_.Line("Killing the workers.");
    SignalWorkers(SIGKILL);
  } else if (StopJob()) {
    stop_deadline_ = options_.clock->Now() + options_.stop_timeout;
    console_.Line("Stopping after the current step, then saving; once more to kill the workers.");
  } else {
    console_.Line("Stopping after the current step; once more to kill the workers.");
    SignalWorkers(SIGTERM);
  }
}

void JobRun::SignalWorkers(int signal) {
  for (const auto& worker : workers_) group_->Signal(worker.first, signal);
}

// False: there is nothing yet that could be saved, or nobody who would.
bool JobRun::StopJob() {
  const absl::StatusOr<v1::JobStatus> job = AskForJob();
  std::vector<pid_t> pids;
  for (const auto& worker : workers_) pids.push_back(group_->Pid(worker.first));
  if (!job.ok() || !IsOfThisRun(*job) || !IsOursToStop(*job, pids)) return false;
  v1::StopJobRequest request;
  request.set_job(job_.name);
  request.set_reason("`weir run` was interrupted");
  return client_->Call(&CoordinatorStub::StopJob, request, options_.clock->Now() + kReachTimeout)
      .ok();
}

// When the workers of a stopped job have gone, the coordinator saves it.
void JobRun::AwaitLastCheckpoint() {
  const absl::Time deadline = options_.clock->Now() + options_.stop_timeout;
  while (options_.stop_requests() < 2) {
    const absl::StatusOr<v1::JobStatus> job = AskForJob();
    const bool saves = job.ok() && IsOfThisRun(*job) && IsLive(job->view().state()) &&
                       job->view().stop() && job->view().members().empty();
    if (!saves) return;
    if (options_.clock->Now() >= deadline) {
      console_.Line(absl::StrCat("The checkpoint is not saved within ",
                                 absl::FormatDuration(options_.stop_timeout), "."));
      return;
    }
    group_->Poll(absl::Milliseconds(100));
    if (cluster_ && !cluster_->Tend().ok()) return;
  }
}

void JobRun::ShowProgress() {
  const absl::Time now = options_.clock->Now();
  if (now < next_progress_) return;
  next_progress_ = now + kProgressInterval;
  const absl::StatusOr<v1::JobStatus> job = AskForJob();
  if (!job.ok() || !IsOfThisRun(*job)) return;
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

}  // namespace weir
