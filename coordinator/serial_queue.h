// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <utility>

#include "common/executor.h"
#include "common/mutex.h"

namespace weir {

// Runs tasks on an executor one after another, in their order. Thread-safe. Shared, because what it
// has put on the executor may run after its owner is gone.
class SerialQueue : public std::enable_shared_from_this<SerialQueue> {
 public:
  // `executor` must outlive the tasks.
  explicit SerialQueue(Executor& executor) : executor_(executor) {}

  void Run(Task task) {
    {
      MutexLock lock(mutex_);
      tasks_.push_back(std::move(task));
      if (std::exchange(running_, true)) return;
    }
    executor_.Run([self = shared_from_this()] { self->RunNext(); });
  }

 private:
  void RunNext() {
    Task task;
    {
      MutexLock lock(mutex_);
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    std::move(task)();
    {
      MutexLock lock(mutex_);
      running_ = !tasks_.empty();
      if (!running_) return;
    }
    executor_.Run([self = shared_from_this()] { self->RunNext(); });
  }

  Executor& executor_;
  Mutex mutex_;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
