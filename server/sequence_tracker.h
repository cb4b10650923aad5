// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/mutex.h"
#include "server/push_header.h"

namespace weir {

// What one worker has pushed of one group: which chunks of which sequences are counted here.
//
//   sequence:  1 2 3 ... complete | complete + 1     complete + 2 | refused
//              all chunks counted | a bitmap of chunks, each       |
//
// Whoever counts a chunk holds that chunk's lock from Counted to Count, so a repetition that comes
// while the first is under way waits for it there, and then finds the bit. Thread-safe; its lock is
// a leaf.
class SequenceTracker {
 public:
  // `chunks`: of the group on this server.
  explicit SequenceTracker(uint64_t chunks) : chunks_(chunks) {}

  // `key`: what must be equal in all messages of a sequence and rise from one to the next: in sync
  // the group step. Errors: FailedPrecondition - two sequences are open already; InvalidArgument -
  // the key contradicts.
  absl::Status Admit(Sequence sequence, uint64_t key);

  bool IsComplete(Sequence sequence) const;
  // True: the chunks of the targets are counted for the sequence before this one, so that each
  // chunk takes a worker's pushes in order.
  bool IsNext(Sequence sequence, absl::Span<const SegmentTarget> targets) const;
  bool Counted(Sequence sequence, uint64_t chunk) const;
  // `sequence` is admitted, the chunk not counted yet. True: the sequence is complete with it.
  bool Count(Sequence sequence, uint64_t chunk);

  // The highest sequence of which all chunks are counted, and of which any is.
  uint64_t complete() const;
  uint64_t begun() const;

 private:
  struct Open {
    bool seen = false;
    uint64_t key = 0;
    uint64_t counted = 0;
    std::vector<uint64_t> bits;
  };

  // Of an open sequence, its place in open_; more than that: it comes too early.
  uint64_t IndexOf(Sequence sequence) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsCompleteLocked(Sequence sequence) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool CountedLocked(Sequence sequence, uint64_t chunk) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t chunks_;
  mutable Mutex mutex_;
  uint64_t complete_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t complete_key_ ABSL_GUARDED_BY(mutex_) = 0;
  std::array<Open, 2> open_ ABSL_GUARDED_BY(mutex_);  // complete + 1, complete + 2
};

}  // namespace weir
