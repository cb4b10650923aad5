// SPDX-License-Identifier: Apache-2.0
#include "worker/embedded/local_ranges.h"

#include <algorithm>
#include <utility>

namespace weir {

void LocalRanges::Start(const Place& place) {
  start_.position = place.position;
  start_.unfinished.clear();
  for (DataRange range : place.unfinished) {
    const uint64_t end = std::min(range.end, options_.epoch_examples);
    if (end <= range.first) continue;
    const uint64_t before = range.epoch * options_.epoch_examples;
    const uint64_t length = options_.total_examples - std::min(options_.total_examples, before);
    range.end = std::max(range.first, std::min(end, length));
    start_.position -= std::min(start_.position, end - range.end);
    if (range.first < range.end) start_.unfinished.push_back(range);
  }
  handed_out_ = 0;
}

LocalRanges::Place LocalRanges::After(uint64_t consumed) const {
  Place place{.position = start_.position, .unfinished = {}};
  for (DataRange range : start_.unfinished) {
    const uint64_t done = std::min(consumed, range.end - range.first);
    consumed -= done;
    range.first += done;
    if (range.first < range.end) place.unfinished.push_back(range);
  }
  place.position += consumed;
  return place;
}

TakenRanges LocalRanges::Take(uint64_t examples) {
  TakenRanges taken;
  const Place next = After(handed_out_);
  if (!next.unfinished.empty()) {
    taken.ranges.push_back(next.unfinished.front());
    handed_out_ += taken.ranges.front().end - taken.ranges.front().first;
    return taken;
  }
  uint64_t position = next.position;
  uint64_t batches = std::max<uint64_t>(1, examples / options_.batch);
  while (batches > 0 && options_.epoch_examples > 0 && position < options_.total_examples) {
    const uint64_t epoch = position / options_.epoch_examples;
    const uint64_t first = position % options_.epoch_examples;
    const uint64_t count = std::min({batches * options_.batch, options_.epoch_examples - first,
                                     options_.total_examples - position});
    taken.ranges.push_back({epoch, first, first + count});
    position += count;
    batches -= (count + options_.batch - 1) / options_.batch;
  }
  handed_out_ += position - next.position;
  taken.end_of_data = taken.ranges.empty();
  return taken;
}

}  // namespace weir
