// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cassert>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/executor.h"
#include "common/mutex.h"
#include "coordinator/coordinated_job.h"
#include "coordinator/job_context.h"
#include "coordinator/outbox.h"
#include "coordinator/server_table.h"
#include "coordinator/state_store.h"
#include "coordinator/watch_hub.h"
#include "weir/v1/coordinator.pb.h"

namespace weir {

// The control plane's core: all jobs and servers of one cluster. Knows nothing of gRPC. Methods are
// named after the RPCs of coordinator.proto, which has their semantics and errors. What a call
// changes is durable before its `done` is called, on the executor; nothing waits with a thread.
// Thread-safe.
//
//   call --(lock: one Turn over servers and jobs)--> Outbox
//        --(synced write)--> answers, views, calls
//
// Shared, because answers of servers may come after the owner has let go.
class Coordinator : public std::enable_shared_from_this<Coordinator> {
 public:
  template <typename Reply>
  using Done = absl::AnyInvocable<void(absl::StatusOr<Reply>) &&>;

  struct Options {
    Clock* clock = nullptr;  // these five must outlive every task on the executor
    Executor* executor = nullptr;
    StateStore* store = nullptr;
    ServerControlTransport* transport = nullptr;
    ManifestStore* manifests = nullptr;
    absl::Duration lease = absl::Seconds(10);
    absl::Duration heartbeat = absl::Seconds(1);
    absl::Duration tick = absl::Milliseconds(100);  // how exact leases and deadlines are
    std::function<uint64_t()> random;               // for run ids; not 0 twice in a row
    std::string build;                              // for people
  };

  // Reads what a former life kept, and begins a new term. Waits for the disk.
  // Errors: those of StateStore and ManifestStore; DataLoss - a record that cannot be read.
  static absl::StatusOr<std::shared_ptr<Coordinator>> Create(Options options);

  void RegisterServer(const v1::RegisterServerRequest& request, Done<v1::RegisterServerReply> done);
  void Register(const v1::RegisterRequest& request, Done<v1::RegisterReply> done);
  void Heartbeat(const v1::HeartbeatRequest& request, Done<v1::HeartbeatReply> done);
  void Leave(const v1::LeaveRequest& request, Done<v1::LeaveReply> done);
  void Declare(const v1::DeclareRequest& request, Done<v1::DeclareReply> done);
  void ReportInitialised(const v1::ReportInitialisedRequest& request,
                         Done<v1::ReportInitialisedReply> done);
  void Barrier(const v1::BarrierRequest& request, absl::Time deadline, Done<v1::BarrierReply> done);
  void TakeRanges(const v1::TakeRangesRequest& request, Done<v1::TakeRangesReply> done);
  void ReportProgress(const v1::ReportProgressRequest& request, Done<v1::ReportProgressReply> done);
  void ReportCut(const v1::ReportCutRequest& request, Done<v1::ReportCutReply> done);
  void SaveCheckpoint(const v1::SaveCheckpointRequest& request, absl::Time deadline,
                      Done<v1::SaveCheckpointReply> done);
  void ListCheckpoints(const v1::ListCheckpointsRequest& request,
                       Done<v1::ListCheckpointsReply> done);
  void ListJobs(const v1::ListJobsRequest& request, Done<v1::ListJobsReply> done);
  void ShowJob(const v1::ShowJobRequest& request, Done<v1::ShowJobReply> done);
  void StopJob(const v1::StopJobRequest& request, Done<v1::StopJobReply> done);
  void Status(const v1::StatusRequest& request, Done<v1::StatusReply> done);

  // The present views come first, then each change. NotFound: no such run.
  absl::StatusOr<WatchId> Watch(const v1::WatchRequest& request, WatchCallback callback);
  // A callback already on its way may still come.
  void Unwatch(WatchId watch);

  // Parked calls, and those that would be, end in Unavailable; time stands still.
  void Shutdown();

  uint64_t term() const { return term_; }

 private:
  Coordinator(Options options, uint64_t term);
  absl::Status Load(const std::map<std::string, std::string>& kept);
  absl::Status LoadJob(const std::string& key, const std::map<std::string, std::string>& kept,
                       Turn& turn) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Runs fn(Turn&) under the lock, then hands over what it changed.
  template <typename Fn>
  void InTurn(Fn fn);
  // The same with the job of a run: `done` gets fn's StatusOr, or NotFound.
  template <typename Reply, typename Fn>
  void InJob(uint64_t run_id, Done<Reply> done, Fn fn);
  // How fn says that it has the lock, which the analysis cannot see. Checked in debug builds.
  void AssertInTurn() const ABSL_ASSERT_EXCLUSIVE_LOCK(mutex_) {
    assert(turn_thread_.load(std::memory_order_relaxed) == std::this_thread::get_id());
  }
  void EnterJob(uint64_t run_id, JobTask task);
  void ScheduleTick();
  void Tick();
  // A process that was stopped, or starved, must not end the leases of those it could not hear.
  void ForgiveDeafness(Turn& turn) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetOldRuns(Turn& turn) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::StatusOr<v1::RegisterReply> RegisterWorker(const v1::RegisterRequest& request, Turn& turn)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<CoordinatedJob*> FindOrStart(const v1::RegisterRequest& request, Turn& turn)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status LeaveServer(uint64_t incarnation, Turn& turn) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckFormerRun(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckName(const v1::JobSpec& spec) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  CoordinatedJob* Live(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The run of a name that began last: the live one, if any.
  CoordinatedJob* Newest(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<CoordinatedJob*> NewestFirst() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const uint64_t term_;
  const std::shared_ptr<Outbox> outbox_;
  const std::shared_ptr<WatchHub> hub_;

  // Held in a turn only; never over a callback, a call or the disk. Before the outbox's lock.
  Mutex mutex_;
  std::atomic<std::thread::id> turn_thread_;  // whose turn it is; of no thread between turns
  ServerTable servers_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<JobContext> context_;  // constant after Create
  std::map<uint64_t, std::unique_ptr<CoordinatedJob>> jobs_ ABSL_GUARDED_BY(mutex_);  // by run
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t ticks_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time last_tick_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
