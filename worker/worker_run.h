// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "weir/job.h"
#include "weir/v1/job_spec.pb.h"
#include "worker/input_pipelines.h"
#include "worker/model_registry.h"
#include "worker/replica_runner.h"
#include "worker/run_summary.h"

namespace weir {

// What a worker's run ends with: weir-worker's exit codes (docs/exit-codes.md).
enum class WorkerExit {
  kDone = 0,
  kFailed = 1,     // anything that is not below
  kBadJob = 2,     // the job file, its overrides or the model's options
  kRefused = 3,    // by the coordinator or the servers: another spec, finished, quota
  kDiverged = 4,   // a gradient that is not finite
  kData = 5,       // data missing or wrong
  kNoCluster = 6,  // the coordinator was not reached in time
};

struct WorkerResult {
  WorkerExit exit = WorkerExit::kDone;
  absl::Status status;
};

struct WorkerRunOptions {
  std::string job_file;
  std::vector<std::string> overrides;
  // Joins the job, or opens a local one. The spec is resolved.
  std::function<absl::StatusOr<Job>(const v1::JobSpec&)> open_job;
  std::string run_dir;           // empty: runs/NAME
  std::FILE* display = nullptr;  // for progress lines; borrowed; nullptr: none
  bool terminal = false;         // redraw them in place
};

// One life of a worker: job file, data, model, training, summary. Used from one thread, but
// for Interrupt, joined and LeaveNow, which are thread-safe.
class WorkerRun {
 public:
  WorkerRun(WorkerRunOptions options, const ModelRegistry& models, Clock& clock);

  // The resolved job as YAML, into `yaml`.
  WorkerResult PrintJob(std::string& yaml);
  // Reads everything, builds the model, and trains one batch without any server.
  WorkerResult Check(std::string& report);
  WorkerResult Train();

  // Ends the training at the next chance.
  void Interrupt();
  // It has joined a job, and perhaps left it. Until then there is nothing to leave, and an
  // interruption is not looked for.
  bool joined() const { return joined_; }
  // Leaves the job from the caller's thread, so that calls which wait for others end.
  void LeaveNow(absl::string_view reason);

 private:
  struct Loaded;

  WorkerResult Resolve(v1::JobSpec& spec);
  WorkerResult Load(Loaded& loaded);
  static WorkerResult LoadImages(Loaded& loaded);
  std::string Report(const Loaded& loaded, const WorkerInputs& inputs, uint64_t examples,
                     const Metrics& metrics) const;
  WorkerResult TrainOnce(Loaded& loaded, bool& join_anew);
  absl::StatusOr<RunSummary> RunLoop(Loaded& loaded, const WorkerInputs& inputs,
                                     JobSession& session, ParameterClient& client);

  const WorkerRunOptions options_;
  const ModelRegistry& models_;
  Clock& clock_;
  std::string run_dir_;
  std::atomic<bool> interrupted_{false};
  std::atomic<bool> joined_{false};
  Mutex mutex_;
  // Shared with Interrupt's thread, which may be leaving the job when the run ends.
  std::shared_ptr<JobSession> session_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
