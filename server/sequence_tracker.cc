// SPDX-License-Identifier: Apache-2.0
#include "server/sequence_tracker.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

constexpr uint64_t kWordBits = 64;

absl::Status KeyError(uint64_t sequence, uint64_t key, absl::string_view what, uint64_t other) {
  return absl::InvalidArgumentError(
      absl::StrCat("sequence ", sequence, " is of group step ", key, ", but ", what, " ", other));
}

}  // namespace

absl::Status SequenceTracker::Admit(uint64_t sequence, uint64_t key) {
  MutexLock lock(mutex_);
  if (sequence <= complete_) return absl::OkStatus();
  const uint64_t index = sequence - complete_ - 1;
  if (index >= open_.size()) {
    return absl::FailedPreconditionError(absl::StrCat("sequence ", sequence,
                                                      " comes too early: ", complete_ + 1, " and ",
                                                      complete_ + 2, " are not complete"));
  }
  Open& open = open_[index];
  if (open.seen) {
    if (open.key == key) return absl::OkStatus();
    return KeyError(sequence, key, "was before of group step", open.key);
  }
  const Open& other = open_[1 - index];
  if (complete_ > 0 && key <= complete_key_) {
    return KeyError(sequence, key, "the sequence before it was of", complete_key_);
  }
  if (other.seen && (index == 0 ? key >= other.key : key <= other.key)) {
    return KeyError(sequence, key, "its neighbour is of", other.key);
  }
  open.seen = true;
  open.key = key;
  open.counted = 0;
  open.bits.assign((chunks_ + kWordBits - 1) / kWordBits, 0);
  return absl::OkStatus();
}

bool SequenceTracker::IsComplete(uint64_t sequence) const {
  MutexLock lock(mutex_);
  return sequence <= complete_;
}

bool SequenceTracker::IsNext(uint64_t sequence, absl::Span<const SegmentTarget> targets) const {
  MutexLock lock(mutex_);
  if (sequence <= complete_ + 1) return true;
  for (const SegmentTarget& target : targets) {
    const uint64_t first = target.shard->first_chunk + target.first_chunk;
    for (uint64_t i = 0; i < target.num_chunks; ++i) {
      if (!CountedLocked(sequence - 1, first + i)) return false;
    }
  }
  return true;
}

bool SequenceTracker::CountedLocked(uint64_t sequence, uint64_t chunk) const {
  if (sequence <= complete_) return true;
  const uint64_t index = sequence - complete_ - 1;
  if (index >= open_.size() || !open_[index].seen) return false;
  return (open_[index].bits[chunk / kWordBits] >> (chunk % kWordBits) & 1) != 0;
}

bool SequenceTracker::Counted(uint64_t sequence, uint64_t chunk) const {
  MutexLock lock(mutex_);
  return CountedLocked(sequence, chunk);
}

bool SequenceTracker::Count(uint64_t sequence, uint64_t chunk) {
  MutexLock lock(mutex_);
  const uint64_t index = sequence - complete_ - 1;
  Open& open = open_[index];
  open.bits[chunk / kWordBits] |= uint64_t{1} << (chunk % kWordBits);
  ++open.counted;
  // A chunk takes sequences in order, so the later of two is never complete before the earlier.
  if (open.counted < chunks_ || index != 0) return false;
  ++complete_;
  complete_key_ = open.key;
  open_[0] = std::exchange(open_[1], Open());
  return true;
}

uint64_t SequenceTracker::complete() const {
  MutexLock lock(mutex_);
  return complete_;
}

uint64_t SequenceTracker::begun() const {
  MutexLock lock(mutex_);
  if (open_[1].counted > 0) return complete_ + 2;
  return open_[0].counted > 0 ? complete_ + 1 : complete_;
}

}  // namespace weir
