// SPDX-License-Identifier: Apache-2.0
#include "tests/support/manual_executor.h"

#include <algorithm>

namespace weir {

void ManualExecutor::Run(Task task) {
  RunAfter(absl::ZeroDuration(), std::move(task));
}

TimerId ManualExecutor::RunAfter(absl::Duration delay, Task task) {
  const absl::Time due = clock_.Now() + delay;
  MutexLock lock(mutex_);
  tasks_.emplace(std::make_pair(due, ++last_), std::move(task));
  return static_cast<TimerId>(last_);
}

bool ManualExecutor::Cancel(TimerId timer) {
  Task dropped;
  MutexLock lock(mutex_);
  const auto found = std::find_if(tasks_.begin(), tasks_.end(), [&](const auto& entry) {
    return entry.first.second == static_cast<uint64_t>(timer);
  });
  if (found == tasks_.end()) return false;
  dropped = std::move(found->second);
  tasks_.erase(found);
  return true;
}

bool ManualExecutor::RunOne(absl::Time until) {
  Task task;
  {
    MutexLock lock(mutex_);
    if (tasks_.empty() || tasks_.begin()->first.first > until) return false;
    clock_.SetNow(std::max(clock_.Now(), tasks_.begin()->first.first));
    task = std::move(tasks_.begin()->second);
    tasks_.erase(tasks_.begin());
  }
  std::move(task)();
  return true;
}

void ManualExecutor::RunAll() {
  while (RunOne(clock_.Now())) {
  }
}

void ManualExecutor::Advance(absl::Duration duration) {
  const absl::Time until = clock_.Now() + duration;
  while (RunOne(until)) {
  }
  clock_.SetNow(until);
}

}  // namespace weir
