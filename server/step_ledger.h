// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "server/member_set.h"
#include "server/push_header.h"
#include "server/store_plan.h"

namespace weir {

// Where the steps of one sync group (in sync: of all members) stand on one server: one group step
// at most is open in each group, from its first contribution until all of the group's chunks have
// closed it. Thread-compatible: used under the store's lock.
class StepLedger {
 public:
  struct OpenStep {
    uint32_t group = 0;
    uint64_t group_step = 0;
    uint64_t step = 0;
  };

  StepLedger(absl::Span<const GroupPlan> groups, uint32_t sync_group);

  // Where a run goes on: group steps by group, [0] being state's. What was open is not any more.
  void Resume(absl::Span<const uint64_t> group_steps, uint64_t step);

  // Whether the push's group step is open, or opens with it. False: the one before it is not closed
  // here yet. Errors: FailedPrecondition - it is closed; InvalidArgument - step or rate_scale
  // differ from what the other workers sent.
  absl::StatusOr<bool> Admits(const PushHeader& push) const;
  // Opens the group step of a push that is admitted, where it is not open. True: it is the first
  // one after an Abandon, and the group goes on from it.
  bool Open(const PushHeader& push);
  // A collective of the step has come.
  void Begin(uint64_t step) { steps_begun_ = std::max(steps_begun_, step + 1); }
  // That many chunks of the group have closed its open step. True: all have, the step is closed.
  bool CloseChunks(uint32_t group, uint64_t chunks);

  // Notes that the worker has got as far as this step.
  void Reach(WorkerId worker, uint64_t step);
  void Forget(WorkerId worker);
  // Nobody is left who runs steps below `step`: what is open of them closes no more. Returns the
  // groups that had not closed the step before it: only their next push, by somebody who has asked
  // all servers, says at which group step such a group goes on.
  std::vector<uint32_t> Abandon(uint64_t step);
  // The group's next push is the first one after an Abandon.
  bool IsAdrift(uint32_t group) const { return groups_[group].adrift; }

  uint64_t next_group_step(uint32_t group) const { return groups_[group].next; }
  // Of all groups, [0] being state's: how many each has closed.
  std::vector<uint64_t> next_group_steps() const;
  // One more than the highest step seen; 0: none.
  uint64_t steps_begun() const { return steps_begun_; }
  // True: some group has yet to close a step below `step`.
  bool IsBehind(uint64_t step) const;
  // One more than the highest step that a group has closed.
  uint64_t steps_closed() const;
  // The lowest open step below `step`.
  absl::optional<OpenStep> OpenBelow(uint64_t step) const;
  // True: nothing of a step below `step` is open, and nothing can come: every group has closed the
  // step before it, or every member that counts there has gone beyond it. Where a group has had
  // several updates in one step, or may have, the latter alone: one that is closed need not be the
  // step's last.
  bool AllClosedBelow(uint64_t step, const MemberSet& members) const;
  // The members that count below `step` and have not got as far as it.
  std::vector<MemberInfo> Behind(uint64_t step, const MemberSet& members) const;

 private:
  struct Group {
    std::string name;
    uint64_t chunks = 0;
    uint64_t next = 0;  // group step
    bool open = false;
    uint64_t step = 0;           // of the open one
    double rate_scale = 1;       // of the open one
    uint64_t closed_chunks = 0;  // of the open one
    uint64_t steps_closed = 0;   // one more than the step of the last closed one
    bool may_follow = false;     // another one in the step of the last opened one
    bool adrift = false;         // `next` is the least that the next push may be of
  };

  bool MoreMayCome(uint64_t step) const;

  uint32_t sync_group_;
  std::vector<Group> groups_;  // [0] is state's: never open
  uint64_t steps_begun_ = 0;
  bool several_in_a_step_ = false;  // updates of some group
  absl::flat_hash_map<WorkerId, uint64_t> reached_;
};

}  // namespace weir
