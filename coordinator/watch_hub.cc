// SPDX-License-Identifier: Apache-2.0
#include "coordinator/watch_hub.h"

#include <utility>
#include <vector>

namespace weir {

WatchId WatchHub::Subscribe(uint64_t run_id, WatchCallback callback) {
  MutexLock lock(mutex_);
  const auto id = static_cast<WatchId>(++last_);
  watchers_.emplace(id, Watcher{run_id, std::move(callback)});
  return id;
}

void WatchHub::Unsubscribe(WatchId watch) {
  Watcher dropped;  // its callback is destroyed after the lock
  MutexLock lock(mutex_);
  const auto found = watchers_.find(watch);
  if (found == watchers_.end()) return;
  dropped = std::move(found->second);
  watchers_.erase(found);
}

void WatchHub::Send(WatchId watch, const SharedWatchEvent& event) {
  WatchCallback callback;
  {
    MutexLock lock(mutex_);
    const auto found = watchers_.find(watch);
    if (found == watchers_.end()) return;
    callback = found->second.callback;
  }
  callback(event);
}

void WatchHub::Publish(uint64_t run_id, const SharedWatchEvent& event) {
  std::vector<WatchCallback> callbacks;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, watcher] : watchers_) {
      if (watcher.run_id == 0 || watcher.run_id == run_id) callbacks.push_back(watcher.callback);
    }
  }
  for (const WatchCallback& callback : callbacks) callback(event);
}

}  // namespace weir
