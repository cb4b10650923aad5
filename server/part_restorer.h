// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/executor.h"
#include "server/parameter_server.h"
#include "server/part_fetcher.h"
#include "server/part_transport.h"
#include "weir/v1/server_control.pb.h"

namespace weir {

// Fills a job's store from the parts of a checkpoint, written by any number of servers: from this
// machine's disk where the part is here, else from the server that can read it. Thread-safe.
class PartRestorer {
 public:
  // All must outlive the executor's tasks.
  struct Options {
    PartFetcher* local = nullptr;
    PartTransport* peers = nullptr;
    Executor* executor = nullptr;  // may be blocked for as long as a restore takes
    Clock* clock = nullptr;
    const std::atomic<bool>* stopping = nullptr;  // true: what is under way ends; null: never
    std::string server;                           // this server's name
  };
  using Done = absl::AnyInvocable<void(absl::StatusOr<v1::RestoreReply>) &&>;

  explicit PartRestorer(Options options);
  ~PartRestorer();

  // Restore. `done` is called once, on any thread. Idempotent per (attempt, checkpoint).
  // Errors: DataLoss - names file or shard: another checkpoint is needed; FailedPrecondition - the
  // shards are not those that were saved, or the checkpoint is of a newer format; Aborted - another
  // attempt; Unavailable - a part's server cannot be reached, or this restore is under way: ask
  // again; ResourceExhausted - memory; DeadlineExceeded.
  void Restore(ParameterServer& server, const v1::RestoreRequest& request, absl::Time deadline,
               Done done);

 private:
  class Ledger;

  const Options options_;
  const std::shared_ptr<Ledger> ledger_;  // shared: a task under way may outlive the restorer
};

}  // namespace weir
