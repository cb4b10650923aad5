// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "weir/v1/variables.pb.h"

namespace weir {

// What one worker sent last of a chunk of state: `elements` aligned elements.
struct StateValue {
  const std::byte* values = nullptr;
  double weight = 0;  // of the mean
};

// Writes the aggregate of at least one value, given in the order of ranks, to `out`, which is apart
// from them. `last`: index of the value that arrived last. MEAN is of floating point alone; where
// all weights are 0, values count equally.
void AggregateState(v1::Aggregation aggregation, v1::DType dtype,
                    absl::Span<const StateValue> by_rank, size_t last, uint64_t elements,
                    std::byte* out);

}  // namespace weir
