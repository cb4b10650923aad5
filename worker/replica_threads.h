// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "common/mutex.h"

namespace weir {

// A thread for each replica of a process, for the replica's whole life; that of the first is its
// owner's. Used from one thread.
class ReplicaThreads {
 public:
  explicit ReplicaThreads(uint32_t replicas);
  ~ReplicaThreads();

  uint32_t size() const { return static_cast<uint32_t>(threads_.size()) + 1; }

  // Calls `function(replica)` for all at once, each on its thread; returns when all have.
  void RunAll(const std::function<void(uint32_t)>& function);
  // For one after another.
  void RunInOrder(const std::function<void(uint32_t)>& function);

 private:
  class Thread {
   public:
    Thread() : thread_([this] { Loop(); }) {}
    ~Thread();
    void Start(std::function<void()> task);
    void Await();

   private:
    void Loop();

    Mutex mutex_;
    CondVar changed_;
    std::function<void()> task_ ABSL_GUARDED_BY(mutex_);  // null: none
    bool stop_ ABSL_GUARDED_BY(mutex_) = false;
    std::thread thread_;  // last: it uses the rest
  };

  std::vector<std::unique_ptr<Thread>> threads_;  // of the replicas from the second on
};

}  // namespace weir
