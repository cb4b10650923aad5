// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "server/member_set.h"
#include "server/store_plan.h"

namespace weir {

// `bounded_staleness: s`: how many steps each member has done, as far as one server sees it, and
// who must wait for the slowest. A member may begin step n when every other one has done n - s, so
// nobody is ever more than s steps ahead (Ho et al., More Effective Distributed ML via a Stale
// Synchronous Parallel Parameter Server, NIPS 2013). Thread-compatible: used under the store's
// lock.
class StalenessGate {
 public:
  // `bound`: s, at least 1.
  StalenessGate(uint64_t bound, absl::Span<const GroupPlan> groups);

  // One that is new begins at its first step, and at the slowest one's if that is later: nobody
  // waits for what a newcomer has missed.
  void SetMembers(const MemberSet& members);
  // The member has come to `step`: all before it is done.
  void Reach(WorkerId worker, uint64_t step);
  // Its push of the group in the step is counted as a whole. The step is done with the last group
  // that is pushed here.
  void Complete(WorkerId worker, uint32_t group, uint64_t step);

  // It makes no more steps.
  void Finish(WorkerId worker);

  // Whether `step` may begin.
  bool Admits(uint64_t step) const;
  // Steps that every member has done that makes more; where none does, the most that one has done.
  uint64_t slowest() const;
  // For whom `step` has to wait.
  std::vector<MemberInfo> WaitsFor(uint64_t step) const;
  uint64_t bound() const { return bound_; }

 private:
  struct Place {
    MemberInfo member;
    bool finished = false;
    uint64_t done = 0;            // steps
    std::set<uint32_t> groups{};  // complete in step `done`
  };

  bool Delays(const Place& place, uint64_t step) const {
    return !place.finished && step > bound_ && place.done < step - bound_;
  }

  const uint64_t bound_;
  size_t pushed_groups_ = 0;  // that have chunks here
  absl::flat_hash_map<WorkerId, Place> members_;
};

}  // namespace weir
