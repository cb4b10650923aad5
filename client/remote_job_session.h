// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/view_listener.h"
#include "common/clock.h"
#include "common/executor.h"
#include "common/mutex.h"
#include "rpc/coordinator_session.h"
#include "rpc/worker_id.h"
#include "weir/job_session.h"
#include "weir/v1/coordinator.pb.h"

namespace weir {

// A worker's membership with a coordinator. Reports that must not make the worker wait go out on a
// thread of this object. Thread-safe.
class RemoteJobSession final : public JobSession {
 public:
  struct Options {
    std::string coordinator;  // HOST:PORT
    v1::JobSpec spec;
    int wanted_rank = -1;                       // -1: any
    std::string host;                           // for people
    absl::Duration timeout = absl::Minutes(1);  // for reaching the coordinator
    const Clock* clock = nullptr;               // must outlive the session
  };

  // Joins, and waits for the first view. Errors: those of JoinJob.
  static absl::StatusOr<std::unique_ptr<RemoteJobSession>> Join(Options options);
  ~RemoteJobSession() override;

  // The client that follows this session's views; it ends before the session does.
  void Attach(std::weak_ptr<ViewListener> client);
  // A client of this session has marked a cut. Does not block.
  void ReportCut(const CutReport& report);

  WorkerId worker() const { return worker_; }
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
  absl::StatusOr<bool> LeaveToOthers(const std::string& reason) override;

 private:
  explicit RemoteJobSession(Options options);

  absl::Status Start();
  // For heartbeats.
  WorkerStep StepReached() const;
  void TakeEvent(const v1::WatchEvent& event);
  void TakeEnd(const absl::Status& status);
  JobInfo InfoLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckGoingOn(const JobInfo& info) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits for a view newer than `newer_than` in which this worker may go on. It becomes `view`.
  absl::StatusOr<JobInfo> AwaitReadyView(uint64_t newer_than, absl::Time deadline,
                                         std::shared_ptr<const v1::JobView>& view);
  // The request of the next call, and the attempt that it belongs to.
  v1::TakeRangesRequest NextRangesRequest(uint64_t examples);
  absl::StatusOr<TakenRanges> KeepRanges(const v1::TakeRangesRequest& request,
                                         const v1::TakeRangesReply& reply);
  // Fills run, worker, and the attempt that the worker knows of.
  template <typename Request>
  Request InThisAttempt(Request request) const;
  absl::Time In(absl::Duration timeout) const { return options_.clock->Now() + timeout; }
  // Of its ranges, or its sync group's, in the adopted attempt.
  uint64_t ConsumedExamples() const;
  v1::LeaveRequest Farewell(bool finished, const std::string& reason) const;
  // remote_job_reports.cc
  void RunReports();
  v1::ReportCutRequest CutRequest(const CutReport& report) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const WorkerId worker_;
  const std::unique_ptr<Executor> executor_;  // of the client's timers

  mutable Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<const v1::JobView> view_ ABSL_GUARDED_BY(mutex_);
  uint64_t adopted_ ABSL_GUARDED_BY(mutex_) = 0;  // attempt that WaitUntilReady has told of
  bool was_member_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);
  std::weak_ptr<ViewListener> client_ ABSL_GUARDED_BY(mutex_);
  // Ranges handed to this worker in `ranges_attempt_`, in order.
  uint64_t ranges_attempt_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<v1::DataRange> ranges_ ABSL_GUARDED_BY(mutex_);
  uint64_t ranges_request_ ABSL_GUARDED_BY(mutex_) = 1;  // of the next TakeRanges
  uint64_t step_ ABSL_GUARDED_BY(mutex_) = 0;            // reported in the adopted attempt
  // The newest of each are sent; older ones are of no use.
  std::optional<CutReport> cut_ ABSL_GUARDED_BY(mutex_);
  std::optional<v1::ReportProgressRequest> progress_ ABSL_GUARDED_BY(mutex_);
  v1::ReportProgressRequest reported_ ABSL_GUARDED_BY(mutex_);  // the last of them
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::unique_ptr<CoordinatorSession> session_;  // constant once started
  std::thread reports_;
};

}  // namespace weir
