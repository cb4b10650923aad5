// SPDX-License-Identifier: Apache-2.0
#include "coordinator/outbox.h"

#include <spdlog/spdlog.h>

#include <iterator>
#include <string>
#include <utility>

namespace weir {

void Outbox::Add(Turn turn) {
  if (turn.changes_.empty() && turn.effects_.empty()) return;
  {
    MutexLock lock(mutex_);
    waiting_.push_back(std::move(turn));
    if (std::exchange(scheduled_, true)) return;
  }
  Schedule(absl::ZeroDuration());
}

void Outbox::Schedule(absl::Duration delay) {
  Task drain = [self = shared_from_this()] { self->Drain(); };
  if (delay > absl::ZeroDuration()) {
    executor_.RunAfter(delay, std::move(drain));
  } else {
    executor_.Run(std::move(drain));
  }
}

void Outbox::Drain() {
  std::deque<Turn> turns;
  {
    MutexLock lock(mutex_);
    turns.swap(waiting_);
  }
  const bool carried = Carry(turns);
  {
    MutexLock lock(mutex_);
    if (!carried) {
      waiting_.insert(waiting_.begin(), std::make_move_iterator(turns.begin()),
                      std::make_move_iterator(turns.end()));
    }
    if (waiting_.empty()) {
      scheduled_ = false;
      return;
    }
  }
  Schedule(carried ? absl::ZeroDuration() : absl::Seconds(1));
}

bool Outbox::Carry(std::deque<Turn>& turns) {
  StateChanges changes;
  for (Turn& turn : turns) {
    for (auto& [key, value] : turn.changes_) changes[key] = value;
  }
  if (!changes.empty()) {
    const absl::Status written = store_.Write(changes);
    if (!written.ok()) {
      spdlog::error("state not written, trying again: {}", std::string(written.message()));
      return false;
    }
  }
  for (Turn& turn : turns) {
    for (Task& effect : turn.effects_) std::move(effect)();
  }
  return true;
}

}  // namespace weir
