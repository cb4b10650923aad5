// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "common/mutex.h"
#include "weir/v1/coordinator.pb.h"

namespace weir {

enum class WatchId : uint64_t {};

// Shared among all watchers of a view, which may keep it until their streams have sent it.
using SharedWatchEvent = std::shared_ptr<const v1::WatchEvent>;
// Called one at a time and in order; must not block.
using WatchCallback = std::function<void(SharedWatchEvent)>;

// Who watches which job. Callbacks are called without a lock. Thread-safe.
class WatchHub {
 public:
  // run_id 0: every run.
  WatchId Subscribe(uint64_t run_id, WatchCallback callback);
  // A call already on its way may still come.
  void Unsubscribe(WatchId watch);

  void Send(WatchId watch, const SharedWatchEvent& event);
  void Publish(uint64_t run_id, const SharedWatchEvent& event);

 private:
  struct Watcher {
    uint64_t run_id = 0;
    WatchCallback callback;
  };
  Mutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<WatchId, Watcher> watchers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
