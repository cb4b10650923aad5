// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>

#include "common/executor.h"
#include "common/mutex.h"
#include "coordinator/state_store.h"
#include "coordinator/turn.h"

namespace weir {

// Carries turns out in their order: what they keep is written first, that of all waiting turns in
// one synced write, then their effects run, one at a time, on the executor. While the disk refuses,
// turns wait and the write is tried again each second: nobody is told what could be forgotten.
// Thread-safe.
//
// Shared, because what it has put on the executor may run after its owner is gone.
class Outbox : public std::enable_shared_from_this<Outbox> {
 public:
  // Both must outlive every task of the outbox on the executor.
  Outbox(StateStore& store, Executor& executor) : store_(store), executor_(executor) {}

  void Add(Turn turn);

 private:
  void Schedule(absl::Duration delay);
  void Drain();
  // False: the disk refused.
  bool Carry(std::deque<Turn>& turns);

  StateStore& store_;
  Executor& executor_;
  Mutex mutex_;
  std::deque<Turn> waiting_ ABSL_GUARDED_BY(mutex_);
  bool scheduled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace weir
