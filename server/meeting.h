// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "rpc/parameter_endpoint.h"
#include "server/buffer_pool.h"
#include "server/memory_budget.h"
#include "server/reduce_call.h"

namespace weir {

// What all who meet are answered. Immutable, shared by the replies.
struct MeetingResult {
  absl::Status status;
  v1::ReduceReply header;
  std::vector<BufferRef> values;  // one after another

  // A reply whose payload holds its own references.
  absl::StatusOr<ReduceResult> Reply() const;
};

// One piece of one collective, where its members meet:
//
//   kOpen --(the last contribution is here)--> kCombining --> kDone --(nobody asks again)--> gone
//     '----(mismatch, a member leaves)--------------------------^
//
// Guarded by the table's lock; in kCombining the contributions stay as they are.
struct Meeting {
  enum class State { kOpen, kCombining, kDone };
  struct Contribution {
    MemberInfo member;
    uint64_t sequence = 0;
    double weight = 0;
    bool is_here = false;  // its bytes are
    BufferRef values{};
  };
  struct Waiting {
    uint64_t id = 0;
    WorkerId worker{};
    ParameterEndpoint::ReduceDone done;
  };

  explicit Meeting(ReduceCall first_call) : call(std::move(first_call)) {}

  const ReduceCall call;  // of the first who came
  State state = State::kOpen;
  uint64_t generation = 0;  // in which it closed
  std::vector<Contribution> contributions;
  std::vector<Waiting> waiting;
  std::vector<MemoryBudget::Reservation> reservations;
  std::shared_ptr<const MeetingResult> result;  // kDone
  // kDone: members that may still ask, because the answer may have been lost...
  absl::flat_hash_set<WorkerId> may_repeat;
  // ...or because they have not come yet, and are to be told of the mismatch.
  absl::flat_hash_set<WorkerId> untold;

  const Contribution* Find(WorkerId worker) const;
  Contribution* Find(WorkerId worker);
  // Those of `members` that count in the step and whose bytes are not here.
  std::vector<MemberInfo> Missing(const MemberSet& members) const;
};

// The result, in the order of ranks: equal bits whatever came first. `payload_bytes`: what later
// pieces shall carry. Errors, in the result's status: InvalidArgument - a broadcast's source is no
// member's; ResourceExhausted - no memory.
std::shared_ptr<const MeetingResult> Combine(const Meeting& meeting, uint64_t payload_bytes,
                                             BufferPool& pool);

}  // namespace weir
