// SPDX-License-Identifier: Apache-2.0
#include "worker/embedded/local_ranges.h"

#include <algorithm>
#include <utility>

namespace weir {

void LocalRanges::Start(const Place& place) {
  start_ = {.position = place.position, .unfinished = {}};
  behind_.clear();
  uint64_t not_done = 0;
  for (DataRange range : place.unfinished) {
    range.end = std::min(range.end, options_.epoch_examples);
    if (range.end <= range.first) continue;
    not_done += range.end - range.first;
    const uint64_t before = range.epoch * options_.epoch_examples;
    const uint64_t length = options_.total_examples - std::min(options_.total_examples, before);
    const DataRange behind{range.epoch, std::max(range.first, length), range.end};
    range.end = std::min(range.end, length);
    if (range.first < range.end) start_.unfinished.push_back(range);
    if (behind.first < behind.end) behind_.push_back(behind);
  }
  const uint64_t wanted = options_.total_examples + not_done;
  wanted_ = wanted - std::min(wanted, place.position);
  std::sort(behind_.begin(), behind_.end(), [](const DataRange& a, const DataRange& b) {
    return std::make_pair(a.epoch, a.first) < std::make_pair(b.epoch, b.first);
  });
  // What is at the end of all that was handed out counts as not handed out.
  while (!behind_.empty()) {
    const DataRange& last = behind_.back();
    const uint64_t before = last.epoch * options_.epoch_examples;
    if (before + last.end != start_.position) break;
    start_.position = before + last.first;
    behind_.pop_back();
  }
  handed_out_ = 0;
}

LocalRanges::Place LocalRanges::Rest(uint64_t consumed) const {
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

LocalRanges::Place LocalRanges::After(uint64_t consumed) const {
  Place place = Rest(consumed);
  place.unfinished.insert(place.unfinished.end(), behind_.begin(), behind_.end());
  return place;
}

TakenRanges LocalRanges::Take(uint64_t examples) {
  TakenRanges taken;
  const Place next = Rest(handed_out_);
  const uint64_t left = wanted_ - handed_out_;
  if (!next.unfinished.empty() && left > 0) {
    DataRange range = next.unfinished.front();
    range.end = std::min(range.end, range.first + left);
    taken.ranges.push_back(range);
    handed_out_ += range.end - range.first;
    return taken;
  }
  uint64_t position = next.position;
  const uint64_t end = std::min(options_.total_examples, position + left);
  uint64_t batches = std::max<uint64_t>(1, examples / options_.batch);
  while (batches > 0 && options_.epoch_examples > 0 && position < end) {
    const uint64_t epoch = position / options_.epoch_examples;
    const uint64_t first = position % options_.epoch_examples;
    const uint64_t count =
        std::min({batches * options_.batch, options_.epoch_examples - first, end - position});
    taken.ranges.push_back({epoch, first, first + count});
    position += count;
    batches -= (count + options_.batch - 1) / options_.batch;
  }
  handed_out_ += position - next.position;
  taken.end_of_data = taken.ranges.empty();
  return taken;
}

}  // namespace weir
