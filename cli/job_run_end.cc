// SPDX-License-Identifier: Apache-2.0
// How a run ends: its verdict, what it leaves in its folder, and its last words.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cli/exit_code.h"
#include "cli/job_run.h"
#include "cli/job_stop.h"
#include "cli/loss_curve.h"
#include "cli/reports.h"
#include "cli/run_summary.h"
#include "cli/shell_word.h"
#include "cli/text_file.h"
#include "common/status_macros.h"

namespace weir {

JobRun::Verdict JobRun::Judge(const absl::StatusOr<v1::JobStatus>& job,
                              const absl::Status& supervised) const {
  const auto ended_well = [](const auto& worker) {
    return worker.second.ended && worker.second.ended->ok();
  };
  // Not by the job's state alone: workers of another run may have finished it.
  const bool finished = job.ok() && IsOfThisRun(*job) &&
                        job->view().state() == v1::JOB_STATE_FINISHED &&
                        std::any_of(workers_.begin(), workers_.end(), ended_well);
  if (finished) return {};
  if (job.ok() && IsOfThisRun(*job) && job->view().state() == v1::JOB_STATE_STOPPED &&
      stops_forwarded_ == 0) {
    return {};
  }
  if (stops_forwarded_ > 0) return {.code = static_cast<int>(RunExit::kStopped)};
  if (!supervised.ok()) {
    return {.code = static_cast<int>(RunExitOf(supervised)),
            .failure = std::string(supervised.message())};
  }
  if (std::all_of(workers_.begin(), workers_.end(), ended_well)) return {};
  return Failure(job);
}

// The first worker that failed and was not replaced says why: the others may have ended because it
// did.
JobRun::Verdict JobRun::Failure(const absl::StatusOr<v1::JobStatus>& job) const {
  Verdict verdict{.code = static_cast<int>(RunExit::kFailed), .failure = "no worker is left"};
  for (const std::string& name : failed_) {
    const std::optional<ExitState>& ended = workers_.at(name).ended;
    if (!ended || ended->ok()) continue;
    if (ended->code != 0) verdict.code = ended->code;
    const std::string meaning = MeaningOf(*ended);
    if (!meaning.empty()) {
      verdict.failure = absl::StrCat(meaning, " (", ended->ToString(), ")");
    } else if (job.ok() && IsOfThisRun(*job) && job->view().state() == v1::JOB_STATE_FAILED) {
      verdict.failure = job->view().message();
    } else {
      verdict.failure =
          absl::StrCat("no worker is left; ", name, " ended with ", ended->ToString());
    }
    return verdict;
  }
  return verdict;
}

absl::Status JobRun::Conclude(const absl::StatusOr<v1::JobStatus>& job, const Verdict& verdict) {
  RunFacts facts{.job = job_.name,
                 .regime = job_.regime,
                 .workers = job_.workers,
                 .wall = options_.clock->Now() - start_,
                 .folder = folder_.path(),
                 .failure = verdict.failure};
  if (job.ok()) {
    facts.checkpoint = job->latest_checkpoint();
    facts.servers = job->view().shard_map().servers_size();
    const bool asked = stops_forwarded_ > 0 && job->view().state() != v1::JOB_STATE_FINISHED;
    const bool stopped = job->view().state() == v1::JOB_STATE_STOPPED;
    stopped_ = IsOfThisRun(*job) && (asked || stopped);
    if (IsOfThisRun(*job)) {
      facts.steps = job->step();
      facts.examples = job->examples();
    }
  }
  if (stopped_) newest_ = NewestCheckpoint();  // while the cluster is there
  for (const auto& worker : workers_) facts.replaced_workers += worker.second.replacements;
  if (!facts.checkpoint.empty()) facts.list_checkpoints = ListCommand();
  if (cluster_) {
    if (!facts.checkpoint.empty()) {
      facts.manifest = absl::StrCat(folder_.path(), "/cluster/coordinator/checkpoints/", job_.name,
                                    "/", facts.checkpoint, ".manifest");
    }
    for (const LocalCluster::Process& process : cluster_->processes()) {
      facts.restarted_daemons += process.restarts;
    }
    for (const std::string& name : cluster_->Stop()) {
      console_.Line(absl::StrCat(name, " did not end when asked to and was killed."));
    }
  }
  // A run that was refused leaves an earlier one's result alone.
  if (folder_.Trained() || verdict.code == 0) WEIR_RETURN_IF_ERROR(WriteResult(facts));
  Explain(verdict);
  if (job.ok() && IsOfThisRun(*job)) {
    const std::string nothing_left = NothingLeftText(*job);
    if (!nothing_left.empty()) console_.Line(nothing_left);
  }
  return absl::OkStatus();
}

// Why the job is not done, and how to go on.
void JobRun::Explain(const Verdict& verdict) {
  if (stopped_) {
    console_.Line(StoppedText(newest_, GoOnCommand(options_, cluster_ != nullptr)));
  } else if (verdict.code == static_cast<int>(RunExit::kStopped)) {
    console_.Line("The job was stopped before its end.");
  }
  if (!verdict.failure.empty()) {
    console_.Line(absl::StrCat("failed: ", verdict.failure, "; logs: ", folder_.path(), "/logs"));
  }
}

// Without an id: there is none.
v1::Manifest JobRun::NewestCheckpoint() {
  v1::ListCheckpointsRequest request;
  request.set_job(job_.name);
  const absl::StatusOr<v1::ListCheckpointsReply> reply = client_->Call(
      &CoordinatorStub::ListCheckpoints, request, options_.clock->Now() + kAskTimeout);
  return reply.ok() && reply->manifests_size() > 0 ? reply->manifests(0) : v1::Manifest();
}

// Lists this run's checkpoints.
std::string JobRun::ListCommand() const {
  const std::string list = ShellWord(options_.command) + " checkpoint list ";
  if (cluster_) return absl::StrCat(list, "--run-dir ", ShellWord(folder_.path()));
  return absl::StrCat(
      list, job_.name,
      options_.coordinator_is_local ? "" : absl::StrCat(" --coordinator ", coordinator_));
}

absl::Status JobRun::WriteResult(RunFacts& facts) {
  const absl::StatusOr<std::string> curve = DrawLossCurve(
      folder_.path(),
      {.title = job_.name, .search_path = options_.search_path, .clock = options_.clock});
  if (curve.ok()) {
    facts.loss_curve = *curve;
  } else {
    console_.Line(absl::StrCat("No loss curve: ", curve.status().message()));
  }
  WEIR_ASSIGN_OR_RETURN(const std::string summary, SummaryJson(folder_.NewSummary(), facts));
  WEIR_RETURN_IF_ERROR(WriteTextFile(folder_.SummaryPath(), summary));
  if (!options_.summary_file.empty()) {
    WEIR_RETURN_IF_ERROR(WriteTextFile(options_.summary_file, summary));
  }
  if (!facts.failure.empty()) return absl::OkStatus();
  WEIR_ASSIGN_OR_RETURN(const std::string text, SummaryText(summary));
  console_.Line("\n" + text);
  return absl::OkStatus();
}

}  // namespace weir
