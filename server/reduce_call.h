// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "server/member_set.h"
#include "weir/v1/parameter_server.pb.h"

namespace weir {

// One member's part in one piece of a collective, checked.
struct ReduceCall {
  WorkerId worker{};
  uint64_t generation = 0;  // of the sender's view
  uint64_t sequence = 0;
  uint64_t step = 0;
  uint32_t ordinal = 0;
  uint64_t piece = 0;
  uint64_t step_generation = 0;  // in which the step began; meaningless where opens_step()
  uint64_t pieces_done = 0;
  v1::Collective collective;
  uint64_t first_element = 0;
  uint64_t count = 0;
  uint32_t element_bytes = 0;
  double weight = 0;

  // Decides who the step's members are.
  bool opens_step() const { return ordinal == 0 && piece == 0; }
  bool gathers() const { return collective.op() == v1::REDUCE_OP_GATHER; }
  // Of what a member sends, where it sends something.
  uint64_t bytes() const {
    return count * element_bytes * (gathers() ? uint64_t{collective.replicas()} : 1);
  }
  // What this member has to send.
  uint64_t BytesFrom(const MemberInfo& member) const;
  // A broadcast's source is one of the member's replicas.
  bool IsSource(const MemberInfo& member) const {
    return collective.source() / collective.replicas() == member.rank;
  }
};

// Errors: InvalidArgument - names the field.
absl::StatusOr<ReduceCall> CheckReduce(const v1::ReduceRequest& request);

// True: the same piece of the same collective, whoever calls it.
bool AreAlike(const ReduceCall& a, const ReduceCall& b);

}  // namespace weir
