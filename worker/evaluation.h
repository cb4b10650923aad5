// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/training_parts.h"

namespace weir {

// Whose means of state (batch norm's statistics) an evaluation uses. Those that belong to the
// weights: where all workers are at one step, what they have pushed there; else this worker's own,
// for the others' are as old as their last push. State of another aggregation is always the
// servers'.
enum class EvaluatedState { kAggregate, kOwnMeans };

// Evaluates the job's model, its newest weights and its state, on the test set. The replica's own
// state is put back afterwards. Used from one thread.
class Evaluation {
 public:
  explicit Evaluation(TrainingParts& parts) : parts_(parts) {}

  // By this worker alone. `step` as below.
  absl::StatusOr<Metrics> Alone(uint64_t step, EvaluatedState state);
  // By all live members that have run one of the steps before `step`, each its part, meeting in the
  // barriers `name`...; everybody gets the result. `step`: the weights after all steps before it
  // (`sync`; 0: as they are). Errors: those of Pull and Barrier; Unavailable - members came and
  // went all the time.
  absl::StatusOr<Metrics> Together(const std::string& name, uint64_t step);

 private:
  BatchSlice ShareOf(const JobInfo& info, uint64_t step) const;
  std::vector<PullItem> ToPull(EvaluatedState state) const;
  absl::StatusOr<Metrics> SumsOver(const BatchSlice& slice, uint64_t step, EvaluatedState state);

  TrainingParts& parts_;
};

}  // namespace weir
