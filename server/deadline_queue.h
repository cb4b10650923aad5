// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"

namespace weir {

// Deadlines of things that wait, by id, behind one timer that the owner arms: deadlines mostly
// rise, so a new one seldom needs a new timer. Thread-compatible.
class DeadlineQueue {
 public:
  // True: it is the earliest; a timer has to be armed for it.
  bool Add(uint64_t id, absl::Time deadline) {
    by_id_[id] = deadline;
    by_time_.emplace(deadline, id);
    if (deadline >= armed_) return false;
    armed_ = deadline;
    return true;
  }

  void Remove(uint64_t id) {
    const auto found = by_id_.find(id);
    if (found == by_id_.end()) return;
    by_time_.erase({found->second, id});
    by_id_.erase(found);
  }

  // The timer armed for `armed_for` has fired: takes out what is due. Nothing, where an earlier
  // timer has taken its place. Then a timer has to be armed for Next().
  std::vector<uint64_t> TakeDue(absl::Time armed_for, absl::Time now) {
    std::vector<uint64_t> due;
    while (!by_time_.empty() && by_time_.begin()->first <= now) {
      due.push_back(by_time_.begin()->second);
      by_id_.erase(due.back());
      by_time_.erase(by_time_.begin());
    }
    if (armed_for >= armed_) {
      armed_ = by_time_.empty() ? absl::InfiniteFuture() : by_time_.begin()->first;
      rearm_ = armed_ < absl::InfiniteFuture();
    }
    return due;
  }

  // InfiniteFuture: no timer is needed.
  absl::Time TakeNext() { return std::exchange(rearm_, false) ? armed_ : absl::InfiniteFuture(); }

 private:
  std::set<std::pair<absl::Time, uint64_t>> by_time_;
  absl::flat_hash_map<uint64_t, absl::Time> by_id_;
  absl::Time armed_ = absl::InfiniteFuture();
  bool rearm_ = false;
};

}  // namespace weir
