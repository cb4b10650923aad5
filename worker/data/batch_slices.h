// SPDX-License-Identifier: Apache-2.0
// Which positions of the data a worker takes.
#pragma once

#include <cstdint>
#include <vector>

#include "weir/job_session.h"

namespace weir {

// Positions [first, end) of permutation(seed, epoch); none where first == end.
struct BatchSlice {
  uint64_t epoch = 0;
  uint64_t first = 0;
  uint64_t end = 0;

  uint64_t examples() const { return end - first; }
};

struct SyncData {
  uint64_t train_examples = 0;  // >= 1
  uint64_t global_batch = 0;    // >= 1
  uint32_t replicas = 1;        // of each worker
};

// The share of `rank` in a batch that is divided among the members that count in the step, each
// with so many replicas, in the order of replica ids, the remainder to the first. Empty for others.
// PartOf divides it among the worker's replicas.
BatchSlice MemberSlice(const BatchSlice& batch, uint64_t step,
                       const std::vector<JobInfo::Member>& members, uint32_t rank,
                       uint32_t replicas);

// `sync`: the share of `rank` in step `step` of the step's global batch.
BatchSlice SyncSlice(const SyncData& data, uint64_t step,
                     const std::vector<JobInfo::Member>& members, uint32_t rank);

// Those of `members` that have run one of the first `steps` steps; all, where none has or `steps`
// is 0. So many meet in a barrier of that step.
std::vector<JobInfo::Member> MembersAt(const std::vector<JobInfo::Member>& members, uint64_t steps);

// The share of the `index`th of `parts` workers in `size` items: evaluation.
BatchSlice PartOf(uint64_t size, uint64_t index, uint64_t parts);

}  // namespace weir
