// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
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
  };

  explicit ParameterServer(Options options);
  ~ParameterServer() override;

  // Takes a view in force: creates or re-shapes the job's store, removes the dead from open steps,
  // and frees a job that has ended. Older versions than the one known are ignored. Errors:
  // ResourceExhausted - the job does not fit below the memory limit; the store is not created.
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

  // ServerControl, as server_control.proto defines it.
  absl::StatusOr<v1::PrepareStepReply> PrepareStep(const v1::PrepareStepRequest& request);
  absl::Status CommitStep(const v1::CommitStepRequest& request);
  absl::Status AbortStep(const v1::AbortStepRequest& request);

  // The store of a live run, for checkpoints. NotFound: none.
  absl::StatusOr<std::shared_ptr<ParameterStore>> Store(uint64_t run_id) const;

  // Bytes of weights, slots, accumulators and spares over all jobs.
  uint64_t memory_bytes() const;

  // Refuses new jobs; `drained` is called when no push is open any more.
  void Drain(absl::AnyInvocable<void() &&> drained);

 private:
  const Options options_;
  mutable Mutex mutex_;
  // Shared: a request may outlast its job.
  absl::flat_hash_map<uint64_t, std::shared_ptr<ParameterStore>> stores_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace weir
