// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/clock.h"
#include "common/executor.h"
#include "common/mutex.h"
#include "rpc/parameter_endpoint.h"
#include "server/buffer_pool.h"
#include "server/departure_log.h"
#include "server/memory_budget.h"
#include "weir/v1/coordinator.pb.h"
#include "weir/v1/server_control.pb.h"
#include "weir/v1/view.pb.h"

namespace weir {

class ParameterStore;  // one job's shards on this server

// The core of a server: the stores of all its jobs. Knows nothing of gRPC. Thread-safe.
class ParameterServer final : public ParameterEndpoint {
 public:
  struct Options {
    std::string name;                  // stable over restarts
    uint64_t incarnation = 0;          // random, of this life
    uint64_t memory_limit_bytes = 0;   // over all jobs: weights, slots, accumulators; 0: none
    uint64_t credit_bytes = 8 << 20;   // granted to each worker
    uint64_t payload_bytes = 1 << 20;  // asked of clients, per message
    Clock* clock = nullptr;            // must outlive the server
    Executor* executor = nullptr;      // must outlive the server
    std::function<bool(size_t bytes)> has_memory = nullptr;  // as BufferPool's
  };

  explicit ParameterServer(Options options);
  ~ParameterServer() override;

  // Every command of a coordinator comes with its term. (The skin keeps terms over restarts.)
  // Errors: Aborted - a later coordinator has spoken.
  absl::Status CheckTerm(uint64_t term);

  // Takes a view in force: creates the job's store, or a new and empty one where the attempt is
  // new; removes the dead from open steps; frees a job that has ended. Older versions than the one
  // known are ignored. Errors: ResourceExhausted - the job does not fit below the memory limit;
  // InvalidArgument - the view contradicts itself; Unavailable - draining. The store is not
  // created, and requests say why. Those of CheckTerm.
  absl::Status ApplyView(const v1::JobView& view);
  // Frees every job whose run is not in the list: what the coordinator no longer knows.
  void KeepOnly(absl::Span<const uint64_t> live_runs);

  void Hello(const v1::HelloRequest& request, absl::Time deadline, HelloDone done) override;
  void Pull(const v1::PullRequest& request, absl::Time deadline, PullDone done) override;
  void Push(const v1::PushRequest& request, Payload payload, absl::Time deadline,
            PushDone done) override;
  void PushPull(const v1::PushRequest& request, Payload payload, absl::Time deadline,
                PullDone done) override;
  void Assign(const v1::AssignRequest& request, Payload payload, absl::Time deadline,
              AssignDone done) override;
  void Reduce(const v1::ReduceRequest& request, Payload payload, absl::Time deadline,
              ReduceDone done) override;

  // ServerControl, as server_control.proto defines it.
  absl::StatusOr<v1::PrepareStepReply> PrepareStep(const v1::PrepareStepRequest& request);
  absl::Status CommitStep(const v1::CommitStepRequest& request);
  absl::Status AbortStep(const v1::AbortStepRequest& request);

  // The store of a live run, for checkpoints. NotFound: none.
  absl::StatusOr<std::shared_ptr<ParameterStore>> Store(uint64_t run_id) const;

  // Bytes of weights, slots, accumulators and spares over all jobs.
  uint64_t memory_bytes() const;
  // What a heartbeat tells the coordinator; and that it has.
  v1::ServerReport Report() const;
  void Reported(const v1::ServerReport& report);

  // Refuses new jobs; `drained` is called when no push is open any more.
  void Drain(absl::AnyInvocable<void() &&> drained);
  // Ends all that waits, with Unavailable, and frees all jobs; takes none any more.
  void Stop();

 private:
  struct Job {
    uint64_t version = 0;                   // of the last view
    std::shared_ptr<ParameterStore> store;  // shared: a request may outlast its job
    absl::Status no_store;                  // why there is none
    bool making = false;                    // a call of ApplyView is replacing the store
  };

  absl::Status ReplaceStore(const v1::JobView& view);
  void WaitUntilMade(uint64_t run_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(uint64_t run_id, absl::Status why);
  void EndJob(const v1::JobView& view);
  // Checks what comes before the view: the run, and whom the sender believes to talk to.
  absl::StatusOr<std::shared_ptr<ParameterStore>> Find(const v1::RequestContext& context) const;
  // The same for a change of the coordinator's: PrepareStep, CommitStep, AbortStep.
  template <typename Request>
  absl::StatusOr<std::shared_ptr<ParameterStore>> FindForChange(const Request& request);

  const Options options_;
  BufferPool pool_;
  DepartureLog departures_;
  const std::shared_ptr<MemoryBudget> budget_;  // shared with snapshots that outlive their job
  mutable Mutex mutex_;
  CondVar made_;
  uint64_t term_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint64_t, Job> jobs_ ABSL_GUARDED_BY(mutex_);
  // Runs that are no more, oldest first, so that requests for them are told from those for runs
  // that are still to come.
  std::deque<uint64_t> gone_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace weir
