// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "weir/job.h"
#include "weir/v1/job_spec.pb.h"

namespace weir {

// A worker without a model, whose weights say what has been applied to them. The learning rate is
// 1, and so every gradient's opposite is added. By `gradient` that is
//
//   kConstant   `amount` everywhere: in `sync` each weight is the sum of the steps' means, in
//               `async` that of the pushes
//   kWeights    the weights as it has pulled them: in `sync` they double with every step, from 1,
//               and never come right again where somebody trains on those of an earlier step
//   kData       1 for the examples of the batch and 0 for the others, each of which has its own
//               weights: at the end of an epoch of `async` all are 1, if each example was used once
//
// What it sees it prints:
//
//   joined rank=R               it is a member
//   step S weight W             step S is done; all weights are W, or, where they differ, "mixed"
//   late at step S, on to T     its push was dropped (backup workers)
//   waiting at step S           it has stopped before the push of step S (hold_at)
//   holding after B bytes       it has stopped inside a push (hold_in; send_hold.h)
//   step S failed: STATUS       an operation failed; followed by
//   resumed at step S attempt=A lost=L
//   finished weight=W attempt=A lost=L
//   values V V ... in runs of N elements    after it where weights differ: they change at multiples
//
// Used from one thread.
class CountingWorker {
 public:
  enum class Gradient { kConstant, kWeights, kData };
  struct Options {
    std::string coordinator;
    std::string job = "counting";
    uint32_t workers = 1;
    uint32_t min_workers = 0;  // 0: workers
    v1::RegimeSpec regime;
    uint64_t elements = 400'000;  // in two variables: several shards on each of several servers
    uint64_t steps = 100;         // but with data
    Gradient gradient = Gradient::kConstant;
    float amount = 1;
    uint64_t examples = 4'000;      // kData: an epoch of them, which is the job's length
    uint64_t batch = 10;            // the same
    absl::Duration step_time;       // that a step takes to compute
    int64_t hold_at = -1;           // waits for ever before the push of this step, or a later one
    int64_t hold_in = -1;           // stops inside the push of this step ...
    uint64_t hold_after_bytes = 0;  // ... when so much of it is sent
    uint64_t leave_at = 0;          // has no more data from this step on; 0: it has
    absl::Duration timeout = absl::Minutes(1);  // of each operation
  };

  explicit CountingWorker(Options options);

  // Returns when all steps are done, or when it has left.
  absl::Status Run();

 private:
  absl::Status Join();
  // Waits for the job and begins; where it is rolled back meanwhile, again.
  absl::Status GetReady();
  // Gives first values where it falls to this worker, pulls, and finds its step.
  absl::Status Begin(JobInfo info);
  bool IsDone() const;
  // False: there is no more data.
  absl::StatusOr<bool> FillGradients();
  absl::StatusOr<bool> FillFromData();
  absl::Status Step();
  absl::StatusOr<PushStats> Push();
  absl::Status Finish();
  absl::Status Pull();
  std::string WeightText() const;
  std::string ValuesText() const;
  std::vector<PullItem> Weights();

  const Options options_;
  Job job_;
  std::vector<std::vector<float>> weights_;  // by variable
  std::vector<std::vector<float>> gradients_;
  uint64_t step_ = 0;
  uint64_t group_step_ = 0;
  uint64_t late_pushes_ = 0;
  std::deque<DataRange> ranges_;
  uint64_t examples_ = 1;  // of this step
  uint64_t consumed_ = 0;  // of the data, in this attempt
  bool end_of_data_ = false;
};

}  // namespace weir
