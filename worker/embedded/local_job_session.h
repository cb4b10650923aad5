// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>

#include "client/view_listener.h"
#include "common/clock.h"
#include "common/executor.h"
#include "common/mutex.h"
#include "server/parameter_server.h"
#include "weir/job_session.h"
#include "weir/v1/view.pb.h"
#include "worker/embedded/local_checkpoints.h"
#include "worker/embedded/local_job.h"
#include "worker/embedded/local_ranges.h"

namespace weir {

// The membership of a job's only worker, together with what would be its coordinator and its
// server.
//
//   WAITING --Declare--> INITIALISING --ReportInitialised--> RUNNING --Leave--> FINISHED | FAILED
//                   \--> RESTORING --(the checkpoint is loaded)--^
//
// To the server the job is asynchronous: with one worker that is the same, bit for bit, and needs
// no agreement on steps. Thread-safe.
class LocalJobSession final : public JobSession {
 public:
  // Errors: InvalidArgument - the spec; NotFound, DataLoss - the checkpoint to resume from; others
  // of the disk.
  static absl::StatusOr<std::unique_ptr<LocalJobSession>> Create(const LocalJobOptions& options);
  ~LocalJobSession() override;

  // The client that follows this session's views; it has ended when the session does.
  void Attach(std::weak_ptr<ViewListener> client);

  // The client has marked the cut of a checkpoint.
  void OnCut(const CutReport& report);

  WorkerId worker() const { return worker_; }
  ParameterServer& server() { return *server_; }
  Executor& executor() { return *executor_; }

  JobInfo Info() const override;
  absl::Status Declare(const Declaration& declaration) override;
  absl::StatusOr<JobInfo> WaitUntilReady(absl::Duration timeout) override;
  absl::Status ReportInitialised() override;
  absl::Status WaitForOtherAttempt(uint64_t attempt, absl::Duration timeout) override;
  absl::StatusOr<BarrierResult> Barrier(const std::string& name,
                                        const std::map<std::string, double>& values,
                                        const BarrierOptions& options) override;
  absl::StatusOr<TakenRanges> TakeRanges(uint64_t examples, absl::Duration timeout) override;
  void ReportProgress(const Progress& progress) override;
  absl::StatusOr<std::string> SaveCheckpoint(const std::map<std::string, double>& metrics) override;
  absl::Status Leave(bool finished, const std::string& reason) override;
  absl::StatusOr<bool> LeaveToOthers(const std::string&) override { return false; }

 private:
  explicit LocalJobSession(const LocalJobOptions& options);

  // Of a job with a data folder: where it begins. Kept for the next life.
  absl::Status TakeUp(LocalCheckpoints::Beginning beginning);
  // What a checkpoint that is restored must agree with.
  absl::Status Place(const v1::Manifest* source) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Restore();
  absl::Status RestoreFrom(const v1::Manifest& source);
  absl::StatusOr<LocalCheckpoints::Cut> TakeCut();
  bool stop_requested() const { return stop_requested_ != nullptr && stop_requested_(); }
  void SaveStopped();
  bool IsDue(const Progress& progress) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  v1::JobView Change(v1::JobState state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Back to where a job is that has declared nothing.
  void Undeclare() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Publish(const v1::JobView& view);

  const Clock& clock_;
  const std::function<bool()> stop_requested_;
  const WorkerId worker_;
  const uint64_t server_incarnation_;
  // The server's timers run on the executor, so it ends first.
  const std::unique_ptr<Executor> executor_;
  const std::unique_ptr<ParameterServer> server_;
  std::unique_ptr<LocalCheckpoints> checkpoints_;  // null: none; used by one call at a time

  mutable Mutex mutex_;
  v1::JobView view_ ABSL_GUARDED_BY(mutex_);
  std::weak_ptr<ViewListener> client_ ABSL_GUARDED_BY(mutex_);
  LocalRanges ranges_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<v1::Manifest> source_ ABSL_GUARDED_BY(mutex_);  // to resume from; null: none
  bool goes_on_ ABSL_GUARDED_BY(mutex_) = false;  // a run that was killed, from its own checkpoint
  CutReport cut_ ABSL_GUARDED_BY(mutex_);         // the newest one
  bool saving_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t saved_step_ ABSL_GUARDED_BY(mutex_) = 0;  // of the newest that was saved
  CondVar saved_;
  Progress saved_at_ ABSL_GUARDED_BY(mutex_);  // when the last save that was due began
  absl::Time saved_at_time_ ABSL_GUARDED_BY(mutex_);

  // Saves that are due wait for the disk on a thread of their own. Ends first.
  std::unique_ptr<Executor> background_;
};

}  // namespace weir
