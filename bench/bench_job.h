// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "weir/job.h"

namespace weir::bench {

// One worker's job with one f32 variable, trained by SGD in async: what a transfer costs with as
// little else as the server can do. Used from one thread.
class BenchJob {
 public:
  // Joins, declares and assigns. Errors: those of JoinJob and JobSession.
  static absl::StatusOr<std::unique_ptr<BenchJob>> Create(const std::string& coordinator,
                                                          const std::string& name,
                                                          uint64_t elements);
  // Leaves, such that the servers free the job's memory.
  ~BenchJob();

  absl::Status Pull();
  absl::Status Push();
  absl::Status PushPull();

 private:
  explicit BenchJob(uint64_t elements) : gradient_(elements, 1e-3f), weights_(elements, 1.0f) {}
  absl::Status SetUp();
  PushOptions NextPush();
  PushItem gradient() const;
  PullItem weights();

  std::vector<float> gradient_;
  std::vector<float> weights_;
  uint64_t step_ = 0;
  Job job_;
};

}  // namespace weir::bench
