// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "common/executor.h"
#include "coordinator/checkpoint_catalog.h"
#include "coordinator/part_dropper.h"
#include "coordinator/server_control_transport.h"
#include "coordinator/server_table.h"
#include "coordinator/turn.h"
#include "coordinator/watch_hub.h"

namespace weir {

class CoordinatedJob;
using JobTask = absl::AnyInvocable<void(CoordinatedJob&, Turn&) &&>;

// What a job needs of its coordinator, which owns it and outlives all jobs.
struct JobContext {
  const ServerTable& servers;  // under the same lock as the jobs
  ServerControlTransport& transport;
  Executor& executor;
  // Shared: effects and answers may come after the coordinator is gone.
  std::shared_ptr<WatchHub> hub;
  std::shared_ptr<CheckpointCatalog> checkpoints;
  std::shared_ptr<PartDropper> dropper;
  uint64_t term = 0;
  absl::Duration lease;
  absl::Duration heartbeat;
  // Runs the task in a turn of its own, under the lock, if the run is still there. From any thread,
  // but not from within a turn.
  std::function<void(uint64_t run_id, JobTask task)> enter;
  // Bytes that other runs take on a server. Within a turn.
  std::function<uint64_t(const std::string& server, uint64_t but_run_id)> reserved_bytes;
};

}  // namespace weir
