// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "weir/job_session.h"

namespace weir {

// Hands all positions of a job's data to its only worker, in order, in whole batches; the last one
// of an epoch may be short. No more than the job's length less what is done, as RangeDispenser.
// Thread-compatible.
class LocalRanges {
 public:
  struct Options {
    uint64_t epoch_examples = 0;  // 0: there is no data
    uint64_t batch = 1;           // > 0
    uint64_t total_examples = 0;  // over all epochs
  };

  // Where handing out goes on: the unfinished ranges first, then from the position.
  struct Place {
    uint64_t position = 0;  // examples before it, over all epochs
    std::vector<DataRange> unfinished;
  };

  explicit LocalRanges(Options options) : options_(options) { Start({}); }

  // A new attempt. What of the unfinished ranges is behind the job's length, which was longer then,
  // waits for a run that is longer again; what is beyond the end of an epoch (the training set was
  // larger then) is left out.
  void Start(const Place& place);
  // About `examples`, at least a batch.
  TakenRanges Take(uint64_t examples);
  // What is left when the worker has consumed so many examples of this attempt, in the order in
  // which they were handed out.
  Place After(uint64_t consumed) const;

  uint64_t epoch_examples() const { return options_.epoch_examples; }

 private:
  // Without what is behind the length.
  Place Rest(uint64_t consumed) const;

  Options options_;
  Place start_;
  std::vector<DataRange> behind_;  // the length; not handed out
  uint64_t wanted_ = 0;            // in this attempt
  uint64_t handed_out_ = 0;        // of them
};

}  // namespace weir
