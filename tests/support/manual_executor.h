// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <utility>

#include "common/clock.h"
#include "common/executor.h"
#include "common/mutex.h"

namespace weir {

// Time that moves when a test says so. Thread-safe.
class FakeClock final : public Clock {
 public:
  absl::Time Now() const override {
    MutexLock lock(mutex_);
    return now_;
  }
  absl::Time WallNow() const override { return Now(); }
  void SetNow(absl::Time now) {
    MutexLock lock(mutex_);
    now_ = now;
  }

 private:
  mutable Mutex mutex_;
  absl::Time now_ ABSL_GUARDED_BY(mutex_) = absl::UnixEpoch() + absl::Hours(24);
};

// Runs tasks and timers on the thread of the test, in the order in which they are due. Thread-safe.
class ManualExecutor final : public Executor {
 public:
  explicit ManualExecutor(FakeClock& clock) : clock_(clock) {}

  void Run(Task task) override;
  TimerId RunAfter(absl::Duration delay, Task task) override;
  bool Cancel(TimerId timer) override;

  // Runs what is queued, and what that queues, at the present time.
  void RunAll();
  // Moves the clock forward by `duration`, running each timer at its time.
  void Advance(absl::Duration duration);

 private:
  bool RunOne(absl::Time until);

  FakeClock& clock_;
  Mutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::pair<absl::Time, uint64_t>, Task> tasks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
