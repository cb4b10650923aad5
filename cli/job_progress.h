// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "weir/v1/coordinator.pb.h"

namespace weir {

// How a job's workers fare by their last reports. A worker that has reported nothing in this
// attempt counts nowhere.
struct WorkersProgress {
  int workers = 0;                // that have reported
  std::optional<double> loss;     // mean over the workers that tell one
  double samples_per_second = 0;  // sum over workers
  double staleness = 0;           // mean over workers
};

WorkersProgress ProgressOfWorkers(const v1::JobStatus& job);

// Lines of progress of a running job. Within an attempt nothing goes back, though a coordinator
// that was restarted may lack the last seconds for a while. Thread-compatible.
class ProgressMeter {
 public:
  std::string Line(const v1::JobStatus& job);
  // Once for each attempt but the first one that this sees: that the job was rolled back.
  std::optional<std::string> Rollback(const v1::JobStatus& job);

 private:
  uint64_t line_attempt_ = 0;  // of the highest, below
  uint64_t step_ = 0;
  uint64_t examples_ = 0;
  uint64_t attempt_ = 0;  // that Rollback has seen
  uint64_t lost_steps_ = 0;
};

}  // namespace weir
