// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "weir/job.h"

namespace weir {

// A worker without a model: every gradient is -1 and the learning rate 1, so that in `sync` each
// weight is the number of steps done, and in `async` the number of pushes applied. What it sees it
// prints:
//
//   joined rank=R               it is a member
//   step S weight W             step S is done; all weights are W ("mixed" where they differ)
//   waiting at step S           it has stopped before the push of step S (hold_at)
//   step S failed: STATUS       an operation failed; followed by
//   resumed at step S attempt=A lost=L
//   finished weight=W attempt=A lost=L
//
// Used from one thread.
class CountingWorker {
 public:
  struct Options {
    std::string coordinator;
    std::string job = "counting";
    uint32_t workers = 1;
    uint32_t min_workers = 0;  // 0: workers
    bool sync = true;
    uint64_t elements = 400'000;  // in two variables: several shards on each of several servers
    uint64_t steps = 100;
    absl::Duration step_time;                   // that a step takes to compute
    int64_t hold_at = -1;                       // waits for ever before the push of this step
    uint64_t leave_at = 0;                      // has no more data from this step on; 0: it has
    absl::Duration timeout = absl::Minutes(1);  // of each operation
  };

  explicit CountingWorker(Options options);

  // Returns when all steps are done, or when it has left.
  absl::Status Run();

 private:
  absl::Status Join();
  // Waits for the job, gives first values where it falls to this worker, pulls, and finds its step.
  absl::Status GetReady();
  absl::Status Step();
  absl::Status Finish();
  absl::Status Pull();
  std::string WeightText() const;
  std::vector<PullItem> Weights();

  const Options options_;
  Job job_;
  std::vector<std::vector<float>> weights_;  // by variable
  std::vector<std::vector<float>> gradients_;
  uint64_t step_ = 0;
  uint64_t group_step_ = 0;
};

}  // namespace weir
