// SPDX-License-Identifier: Apache-2.0
#include <deque>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/executor.h"
#include "common/mutex.h"

namespace weir {
namespace {

// Thread-safe.
class ThreadPool final : public Executor {
 public:
  explicit ThreadPool(int threads) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
    threads_.emplace_back([this] { RunTimers(); });
  }

  ~ThreadPool() override {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
    }
    work_.NotifyAll();
    timer_.NotifyAll();
    for (std::thread& thread : threads_) thread.join();
  }

  void Run(Task task) override {
    {
      MutexLock lock(mutex_);
      queue_.push_back(std::move(task));
    }
    work_.NotifyOne();
  }

  TimerId RunAfter(absl::Duration delay, Task task) override {
    const absl::Time due = Clock::Real().Now() + delay;
    TimerId id;
    bool wake;
    {
      MutexLock lock(mutex_);
      id = static_cast<TimerId>(++last_timer_);
      due_of_[id] = due;
      timers_.emplace(std::make_pair(due, id), std::move(task));
      // Deadlines of calls are set and cancelled all the time: a wake-up for each would cost a
      // small call a good part of its time.
      wake = due < timers_sleep_until_;
      if (wake) timers_sleep_until_ = due;
    }
    if (wake) timer_.NotifyOne();
    return id;
  }

  bool Cancel(TimerId timer) override {
    Task dropped;  // destroyed after the lock
    MutexLock lock(mutex_);
    const auto due = due_of_.find(timer);
    if (due == due_of_.end()) return false;
    auto entry = timers_.find({due->second, timer});
    dropped = std::move(entry->second);
    timers_.erase(entry);
    due_of_.erase(due);
    return true;
  }

 private:
  void Work() {
    while (true) {
      Task task;
      {
        MutexLock lock(mutex_);
        while (queue_.empty() && !stopping_) work_.Wait(mutex_);
        if (queue_.empty()) return;
        task = std::move(queue_.front());
        queue_.pop_front();
      }
      std::move(task)();
    }
  }

  void RunTimers() {
    MutexLock lock(mutex_);
    while (!stopping_) {
      if (timers_.empty()) {
        timers_sleep_until_ = absl::InfiniteFuture();
        timer_.Wait(mutex_);
        continue;
      }
      auto first = timers_.begin();
      const absl::Duration left = first->first.first - Clock::Real().Now();
      if (left > absl::ZeroDuration()) {
        timers_sleep_until_ = first->first.first;
        timer_.WaitFor(mutex_, left);
        continue;
      }
      due_of_.erase(first->first.second);
      queue_.push_back(std::move(first->second));
      timers_.erase(first);
      work_.NotifyOne();
    }
  }

  Mutex mutex_;
  CondVar work_;
  CondVar timer_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t last_timer_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Task> queue_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<absl::Time, TimerId>, Task> timers_ ABSL_GUARDED_BY(mutex_);
  std::map<TimerId, absl::Time> due_of_ ABSL_GUARDED_BY(mutex_);
  // The timer thread wakes by itself then, if it is not at work anyway.
  absl::Time timers_sleep_until_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<Executor> Executor::CreatePool(int threads) {
  return std::make_unique<ThreadPool>(threads);
}

}  // namespace weir
