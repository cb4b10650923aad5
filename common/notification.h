// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"

namespace weir {

// Something that one thread says once and others wait for. As absl::Notification, but
// ThreadSanitizer sees it. Thread-safe.
class Notification {
 public:
  void Notify() {
    MutexLock lock(mutex_);
    notified_ = true;
    changed_.NotifyAll();
  }
  bool HasBeenNotified() {
    MutexLock lock(mutex_);
    return notified_;
  }
  void Wait() {
    MutexLock lock(mutex_);
    while (!notified_) changed_.Wait(mutex_);
  }
  // False: the time ran out.
  bool WaitFor(absl::Duration timeout) {
    const absl::Time until = Clock::Real().Now() + timeout;
    MutexLock lock(mutex_);
    while (!notified_) {
      const absl::Duration left = until - Clock::Real().Now();
      if (left <= absl::ZeroDuration()) return false;
      changed_.WaitFor(mutex_, left);
    }
    return true;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool notified_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace weir
