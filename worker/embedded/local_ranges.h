// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "weir/job_session.h"

namespace weir {

// Hands all positions of a job's data to its only worker, in order, in whole batches; the last one
// of an epoch may be short. Thread-compatible.
class LocalRanges {
 public:
  struct Options {
    uint64_t epoch_examples = 0;  // 0: there is no data
    uint64_t batch = 1;           // > 0
    uint64_t total_examples = 0;  // over all epochs
  };

  explicit LocalRanges(Options options) : options_(options) {}

  // About `examples`, at least a batch.
  TakenRanges Take(uint64_t examples);
  // Examples handed out, over all epochs.
  uint64_t position() const { return position_; }
  void GoTo(uint64_t position) { position_ = position; }

 private:
  Options options_;
  uint64_t position_ = 0;
};

}  // namespace weir
