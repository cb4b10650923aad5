// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "weir/v1/coordinator.pb.h"

namespace weir {

// How far a job is, over what its workers have reported last.
struct JobProgress {
  int workers = 0;                // that have reported
  uint64_t step = 0;              // the highest
  uint64_t examples = 0;          // that the job has consumed, with those before a resume
  double epoch = 0;               // examples over the training set's; 0 where its size is unknown
  double fraction = 0;            // of the job's length; 0 where it is unknown
  double loss = 0;                // mean over workers
  double samples_per_second = 0;  // sum over workers
  double staleness = 0;           // mean over workers
};

JobProgress ProgressOf(const v1::JobStatus& job);

// A line of progress with the time left, which needs the progress before. Thread-compatible.
class ProgressMeter {
 public:
  std::string Line(const v1::JobStatus& job, absl::Time now);

 private:
  struct Mark {
    absl::Time time;
    double fraction;
    uint64_t attempt;
  };
  std::optional<Mark> first_;  // of this attempt
};

}  // namespace weir
