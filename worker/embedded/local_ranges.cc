// SPDX-License-Identifier: Apache-2.0
#include "worker/embedded/local_ranges.h"

#include <algorithm>

namespace weir {

TakenRanges LocalRanges::Take(uint64_t examples) {
  TakenRanges taken;
  uint64_t batches = std::max<uint64_t>(1, examples / options_.batch);
  while (batches > 0 && options_.epoch_examples > 0 && position_ < options_.total_examples) {
    const uint64_t epoch = position_ / options_.epoch_examples;
    const uint64_t first = position_ % options_.epoch_examples;
    const uint64_t count = std::min({batches * options_.batch, options_.epoch_examples - first,
                                     options_.total_examples - position_});
    taken.ranges.push_back({epoch, first, first + count});
    position_ += count;
    batches -= (count + options_.batch - 1) / options_.batch;
  }
  taken.end_of_data = taken.ranges.empty();
  return taken;
}

}  // namespace weir
