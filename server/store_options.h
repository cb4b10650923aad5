// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/clock.h"
#include "common/executor.h"
#include "server/buffer_pool.h"
#include "server/departure_log.h"
#include "server/memory_budget.h"

namespace weir {

// What a ParameterStore has of its server.
struct StoreOptions {
  std::string server_name;
  uint64_t server_incarnation = 0;
  uint64_t credit_bytes = 8 << 20;   // of held pushes, each worker
  uint64_t payload_bytes = 1 << 20;  // asked of clients, per message
  Clock* clock = nullptr;            // must outlive the store, like what follows
  Executor* executor = nullptr;
  BufferPool* pool = nullptr;
  DepartureLog* departures = nullptr;
  std::shared_ptr<MemoryBudget> budget;  // shared with the snapshots that go out
};

}  // namespace weir
