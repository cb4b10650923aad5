// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "weir/reduce.h"
#include "weir/variable.h"

namespace weir {

// What one replica brings to a reduction.
struct Contribution {
  const void* data = nullptr;  // nullptr: absent, counts as zeros
  double weight = 1;           // of kMean; with 0 the data is not looked at
};

// Errors: InvalidArgument - kMean of whole numbers or bools.
absl::Status CheckReduction(ReduceOp op, DType dtype);

// Element by element, in the order of the contributions, of which there is at least one; kMean is
// sum(weight * x) / sum(weight), unweighted where all weights are 0; kSum of bools is whether there
// is a true one. For what CheckReduction allows, but not kGather and kBroadcast. `result` may be
// one of the contributions.
void Combine(ReduceOp op, DType dtype, uint64_t elements,
             absl::Span<const Contribution> contributions, void* result);

}  // namespace weir
