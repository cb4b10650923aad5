// SPDX-License-Identifier: Apache-2.0
// C++17; no LibTorch, no protobuf, no gRPC.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

namespace weir {

// Tells a callable that may block that nobody waits for it any more. A handle, cheap to copy.
// Thread-safe.
class StopToken {
 public:
  bool stop_requested() const {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    return state_->stop;
  }

  // Sleeps until a stop is requested, which gives true, or the time is over.
  template <typename Rep, typename Period>
  bool WaitFor(const std::chrono::duration<Rep, Period>& time) const {
    std::unique_lock<std::mutex> lock(state_->mutex);
    return state_->changed.wait_for(lock, time, [&] { return state_->stop; });
  }

 private:
  friend class StopSource;
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool stop = false;
  };

  explicit StopToken(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

// Who tells it. Thread-safe.
class StopSource {
 public:
  StopToken token() const { return StopToken(state_); }
  void RequestStop() const {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->stop = true;
    state_->changed.notify_all();
  }

 private:
  std::shared_ptr<StopToken::State> state_ = std::make_shared<StopToken::State>();
};

}  // namespace weir
