// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/console.h"
#include "cli/job_progress.h"
#include "cli/local_cluster.h"
#include "cli/process_group.h"
#include "cli/resolved_job.h"
#include "cli/run_folder.h"
#include "cli/run_summary.h"
#include "rpc/coordinator_client.h"

namespace weir {

// One job from its file to its end: the cluster where there is none, the workers as children,
// progress, and what a run leaves in its folder. Used from one thread, which must outlive the run.
class JobRun {
 public:
  struct Options {
    std::string job_file;
    std::vector<std::string> overrides;  // "key=value", as weir-worker's --set
    int workers = 0;                     // 0: as the job says
    int servers = 1;                     // of the cluster that the run brings up
    std::string coordinator;            // HOST:PORT of a cluster that is there; empty: bring one up
    bool coordinator_is_local = false;  // it is that of `weir local up`
    std::string runs_folder = "runs";   // the run's is <runs_folder>/<job>
    std::string summary_file;           // a copy of summary.json; empty: none
    std::string command = "weir";       // as it was typed, for commands that are shown
    std::string program = {};           // the worker program; empty: weir-worker
    std::string program_folder;         // of weir-worker and the daemons
    std::string search_path = {};       // where gnuplot is looked for, as PATH
    std::string log_level = "info";
    const Clock* clock = nullptr;  // must outlive the run
    // How often a person has asked to stop: once ends the job as `weir stop` does, twice kills.
    std::function<int()> stop_requests;
    // For the workers' last step, and for the checkpoint after it.
    absl::Duration stop_timeout = absl::Minutes(1);
  };

  // `console` must outlive the run.
  JobRun(Options options, Console& console);
  ~JobRun();

  // Returns the program's exit code (docs/exit-codes.md). Errors: what kept the job from starting,
  // for a person; RunExitOf has its code.
  absl::StatusOr<int> Run();

 private:
  struct Worker {
    int replacements = 0;
    std::optional<ExitState> ended;
    bool given_up = false;  // and a person has been told
  };
  struct Verdict {
    int code = 0;
    std::string failure = {};  // for a person; empty: it has finished, or was stopped by request
  };

  static constexpr absl::Duration kAskTimeout = absl::Milliseconds(500);

  absl::Status BringUp();
  absl::Status StartCluster();
  absl::Status AskBefore();
  bool IsOfThisRun(const v1::JobStatus& job) const;
  std::string WorkerProgram() const;
  absl::Status StartWorker(int rank);
  void TakeLine(const std::string& name, const std::string& line);
  void TakeExit(const std::string& name, const ExitState& state);
  void ReplaceDeadWorkers();
  void GiveUp(const std::string& name, Worker& worker);
  int RunningWorkers() const;
  absl::Status Supervise();
  void ForwardStopRequests();
  bool StopJob();
  void SignalWorkers(int signal);
  void AwaitLastCheckpoint();
  void Explain(const Verdict& verdict);
  v1::Manifest NewestCheckpoint();
  void ShowProgress();
  absl::StatusOr<v1::JobStatus> AskForJob();
  Verdict Judge(const absl::StatusOr<v1::JobStatus>& job, const absl::Status& supervised) const;
  Verdict Failure(const absl::StatusOr<v1::JobStatus>& job) const;
  absl::Status Conclude(const absl::StatusOr<v1::JobStatus>& job, const Verdict& verdict);
  std::string ListCommand() const;
  absl::Status WriteResult(RunFacts& facts);

  const Options options_;
  Console& console_;
  const absl::Time start_;
  ResolvedJob job_;
  RunFolder folder_;
  std::unique_ptr<LocalLock> lock_;  // of the cluster's folder, where the run has its own
  std::unique_ptr<ProcessGroup> group_;
  std::unique_ptr<LocalCluster> cluster_;  // null: it was there
  std::unique_ptr<CoordinatorClient> client_;
  std::string coordinator_;
  v1::JobView before_;  // the job of this name when the run began; without a state: there was none
  std::map<std::string, Worker> workers_;  // by name, "worker-<rank>"
  std::vector<std::string> failed_;        // names of workers in the order in which they failed
  std::set<std::string> errors_;           // of workers, that have been shown
  ProgressMeter meter_;
  absl::Time next_progress_ = absl::InfinitePast();
  int stops_forwarded_ = 0;
  bool stopped_ = false;  // the job, before its end
  v1::Manifest newest_;   // checkpoint of a job that was stopped
  absl::Time stop_deadline_ = absl::InfiniteFuture();
};

}  // namespace weir
