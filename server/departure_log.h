// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "common/mutex.h"
#include "rpc/worker_id.h"
#include "server/sequence_tracker.h"
#include "weir/v1/coordinator.pb.h"

namespace weir {

// What workers that have left a job had pushed here, until the coordinator has heard of it: it
// compares the servers, and so finds the pushes that are torn. Outlives the stores, because a job
// may end with the departure. Thread-safe; its lock comes before a SequenceTracker's.
class DepartureLog {
 public:
  struct Entry {
    uint64_t run_id = 0;
    uint64_t attempt = 0;
    WorkerId worker{};
    uint32_t group = 0;
    // Shared: a message of the worker may still be being applied. Null: it has pushed nothing.
    std::shared_ptr<const SequenceTracker> tracker;
  };

  // The worker is no member any more, so that no message of it is admitted from here on.
  void Add(Entry entry);
  // Those that nothing is being applied of any more, oldest first.
  std::vector<v1::Departure> Settled() const;
  // The coordinator knows these.
  void Forget(const google::protobuf::RepeatedPtrField<v1::Departure>& known);

 private:
  mutable Mutex mutex_;
  std::deque<Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
