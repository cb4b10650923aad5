// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"

namespace weir {

// Something that one thread says once and others wait for. As absl::Notification, but
// ThreadSanitizer sees it. Thread-safe.
class Signal {
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

// The result of a call that answers through a callback:
//   CallAndWait<PullResult>([&](auto done) { endpoint.Pull(request, deadline, std::move(done)); });
template <typename Result, typename Start>
absl::StatusOr<Result> CallAndWait(Start start) {
  struct State {
    Signal answered;
    absl::StatusOr<Result> result;
  };
  auto state = std::make_shared<State>();
  start([state](absl::StatusOr<Result> result) {
    state->result = std::move(result);
    state->answered.Notify();
  });
  if (!state->answered.WaitFor(absl::Minutes(1))) {
    return absl::DeadlineExceededError("the callback was not called within a minute");
  }
  return std::move(state->result);
}

}  // namespace weir
