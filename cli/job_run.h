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
    std::string coordinator;           // HOST:PORT of a cluster that is there; empty: bring one up
    std::string runs_folder = "runs";  // the run's is <runs_folder>/<job>
    std::string summary_file;          // a copy of summary.json; empty: none
    std::string program_folder;        // of weir-worker and the daemons
    std::string log_level = "info";
    const Clock* clock = nullptr;  // must outlive the run
    // How often a person has asked to stop: once ends the job after the current step, twice kills.
    std::function<int()> stop_requests;
  };

  // `console` must outlive the run.
  JobRun(Options options, Console& console);
  ~JobRun();

  // Returns the program's exit code: 0 - the job has finished; 1 - it has not; 130 - stopped by
  // request. Errors: what kept the job from starting, for a person.
  absl::StatusOr<int> Run();

 private:
  struct Worker {
    int replacements = 0;
    std::optional<ExitState> ended;
  };

  absl::Status BringUp();
  absl::Status StartWorker(int rank);
  void TakeLine(const std::string& name, const std::string& line);
  void TakeExit(const std::string& name, const ExitState& state);
  void ReplaceDeadWorkers();
  absl::Status Supervise();
  void ForwardStopRequests();
  void ShowProgress();
  absl::StatusOr<v1::JobStatus> AskForJob();
  int ExitCode(const absl::StatusOr<v1::JobStatus>& job) const;
  absl::Status Conclude(const absl::StatusOr<v1::JobStatus>& job);

  const Options options_;
  Console& console_;
  const absl::Time start_;
  ResolvedJob job_;
  std::string folder_;  // of the run
  std::unique_ptr<ProcessGroup> group_;
  std::unique_ptr<LocalCluster> cluster_;  // null: it was there
  std::unique_ptr<CoordinatorClient> client_;
  std::string coordinator_;
  std::map<std::string, Worker> workers_;  // by name, "worker-<rank>"
  ProgressMeter meter_;
  absl::Time next_progress_ = absl::InfinitePast();
  int stops_forwarded_ = 0;
};

}  // namespace weir
