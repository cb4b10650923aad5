// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "weir/job_session.h"

namespace weir {

// What a finished job comes to: summary.json.
struct RunSummary {
  std::string name;
  double test_accuracy = 0;
  double test_loss = 0;
  double train_loss = 0;  // mean of the last interval, over the workers
  uint64_t steps = 0;     // `sync`: of the job; `async`: pushes that were applied
  uint64_t examples = 0;
  double samples_per_second = 0;  // of all workers, while they trained
  StepSeconds step_seconds;       // of a step, mean over the workers that are there at the end
  std::string regime;
  uint32_t servers = 0;
  uint32_t workers = 0;
  std::string checkpoint;    // id of the final one; empty: none
  bool lead = false;         // this worker is the one that writes it; not in the JSON
  absl::Status saved;        // why there is none; not in the JSON
  double wall_seconds = 0;   // from joining to the end of the evaluation
  uint64_t lost_steps = 0;   // undone by rollbacks
  uint64_t late_pushes = 0;  // that came after their step had closed, and were dropped
  uint64_t seed = 0;
  std::string left;      // why this worker has left before the job's end; not in the JSON
  bool stopped = false;  // by command, before its length; then without an evaluation
};

// JSON with the names of the fields.
std::string ToJson(const RunSummary& summary);

// Writes it aside and renames it. Errors: those of the file system, naming the file.
absl::Status WriteSummary(const RunSummary& summary, const std::string& file);

}  // namespace weir
