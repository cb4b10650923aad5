// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "weir/job.h"

namespace weir::bench {

// One worker's job with f32 variables of one size, trained by SGD in async: what a transfer costs
// with as little else as the server can do. Used from one thread.
class BenchJob {
 public:
  // Joins, declares and assigns. Errors: those of JoinJob and JobSession.
  static absl::StatusOr<std::unique_ptr<BenchJob>> Create(const std::string& coordinator,
                                                          const std::string& name,
                                                          uint64_t elements,
                                                          uint64_t variables = 1);
  // The same of a job that it has joined.
  static absl::StatusOr<std::unique_ptr<BenchJob>> Create(Job job, uint64_t elements,
                                                          uint64_t variables = 1);
  // Leaves, such that the servers free the job's memory.
  ~BenchJob();

  absl::Status Pull();
  absl::Status Push();
  absl::Status PushPull();

 private:
  // `elements` over all variables together.
  BenchJob(uint64_t elements, uint64_t variables);
  absl::Status SetUp();
  // Of an attempt. Errors: Aborted - rolled back.
  absl::Status Begin(const JobInfo& info);
  PushOptions NextPush();

  std::vector<float> gradient_;
  std::vector<float> weights_;
  std::vector<PushItem> push_;  // by variable, as what follows; pieces of gradient_
  std::vector<PullItem> pull_;  // of weights_
  uint64_t step_ = 0;
  Job job_;
};

}  // namespace weir::bench
