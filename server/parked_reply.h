// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "rpc/parameter_endpoint.h"
#include "server/push_header.h"

namespace weir {

// The reply of a sync PushPull that waits, without a thread, until every chunk of it has closed its
// step. Chunks count down; whoever takes the reply out of the store's list of parked ones answers
// it, so it is answered once, whatever comes first: the last chunk, the deadline, or the end of a
// membership. Thread-safe but for TakeDone and `outcome`, which have one caller each.
class ParkedReply {
 public:
  ParkedReply(uint64_t id, PushHeader header, std::vector<SegmentTarget> segments,
              ParameterEndpoint::PullDone done)
      : id_(id), header_(header), segments_(std::move(segments)), done_(std::move(done)) {}

  uint64_t id() const { return id_; }
  const PushHeader& header() const { return header_; }
  absl::Span<const SegmentTarget> segments() const { return segments_; }

  // It starts open once, for the push itself, whose outcome is set before it closes.
  void Open() { open_.fetch_add(1, std::memory_order_relaxed); }
  // True: that was the last.
  bool Close() { return open_.fetch_sub(1, std::memory_order_acq_rel) == 1; }

  // Answered already: chunks may forget it.
  bool answered() const { return answered_.load(std::memory_order_relaxed); }
  ParameterEndpoint::PullDone TakeDone() {
    answered_.store(true, std::memory_order_relaxed);
    return std::move(done_);
  }

  v1::PushOutcome outcome;

 private:
  const uint64_t id_;
  const PushHeader header_;
  const std::vector<SegmentTarget> segments_;
  ParameterEndpoint::PullDone done_;
  std::atomic<int64_t> open_{1};
  std::atomic<bool> answered_{false};
};

}  // namespace weir
