// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"

namespace weir {

using Task = absl::AnyInvocable<void() &&>;

enum class TimerId : uint64_t { kNone = 0 };

// Where work off the caller's thread goes. Implementations are thread-safe. Tasks must not block
// for long: a pool is small. Under a simulation one thread runs everything.
class Executor {
 public:
  virtual ~Executor() = default;

  virtual void Run(Task task) = 0;
  virtual TimerId RunAfter(absl::Duration delay, Task task) = 0;
  // True: the task was still to come and never runs now.
  virtual bool Cancel(TimerId timer) = 0;

  // A pool of `threads` threads and a timer thread. Destruction drops timers still to come, runs
  // what is queued, and joins.
  static std::unique_ptr<Executor> CreatePool(int threads);
};

}  // namespace weir
