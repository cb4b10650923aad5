// SPDX-License-Identifier: Apache-2.0
#include "server/sequence_tracker.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

constexpr uint64_t kWordBits = 64;

uint64_t NumberOf(Sequence sequence) {
  return static_cast<uint64_t>(sequence);
}

absl::Status KeyError(Sequence sequence, uint64_t key, absl::string_view what, uint64_t other) {
  return absl::InvalidArgumentError(absl::StrCat(
      "sequence ", NumberOf(sequence), " is of group step ", key, ", but ", what, " ", other));
}

}  // namespace

uint64_t SequenceTracker::IndexOf(Sequence sequence) const {
  return NumberOf(sequence) - complete_ - 1;
}

bool SequenceTracker::IsCompleteLocked(Sequence sequence) const {
  return NumberOf(sequence) <= complete_;
}

absl::Status SequenceTracker::Admit(Sequence sequence, uint64_t key) {
  MutexLock lock(mutex_);
  if (IsCompleteLocked(sequence)) return absl::OkStatus();
  const uint64_t index = IndexOf(sequence);
  if (index >= open_.size()) {
    return absl::FailedPreconditionError(absl::StrCat("sequence ", NumberOf(sequence),
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

bool SequenceTracker::IsComplete(Sequence sequence) const {
  MutexLock lock(mutex_);
  return IsCompleteLocked(sequence);
}

bool SequenceTracker::IsNext(Sequence sequence, absl::Span<const SegmentTarget> targets) const {
  MutexLock lock(mutex_);
  if (NumberOf(sequence) <= complete_ + 1) return true;
  const Sequence before{NumberOf(sequence) - 1};
  for (const SegmentTarget& target : targets) {
    const uint64_t first = target.shard->first_chunk + target.first_chunk;
    for (uint64_t i = 0; i < target.num_chunks; ++i) {
      if (!CountedLocked(before, first + i)) return false;
    }
  }
  return true;
}

bool SequenceTracker::CountedLocked(Sequence sequence, uint64_t chunk) const {
  if (IsCompleteLocked(sequence)) return true;
  const uint64_t index = IndexOf(sequence);
  if (index >= open_.size() || !open_[index].seen) return false;
  return (open_[index].bits[chunk / kWordBits] >> (chunk % kWordBits) & 1) != 0;
}

bool SequenceTracker::Counted(Sequence sequence, uint64_t chunk) const {
  MutexLock lock(mutex_);
  return CountedLocked(sequence, chunk);
}

bool SequenceTracker::Count(Sequence sequence, uint64_t chunk) {
  MutexLock lock(mutex_);
  const uint64_t index = IndexOf(sequence);
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
