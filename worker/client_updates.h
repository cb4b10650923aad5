// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/clock.h"
#include "weir/job_session.h"
#include "weir/parameter_client.h"
#include "worker/group_updates.h"

namespace weir {

// A training step's place in the job, the same for all of its pushes.
struct StepPlace {
  uint64_t step = 0;
  uint64_t examples = 0;
  uint64_t consumed = 0;  // with this step, in this attempt
  // The attempt's, not this worker's: how many updates a step has is not known yet.
  bool first = false;
};

// Sends updates to the servers and counts the group steps. For one attempt. Borrows client and
// clock. Used from one thread.
class ClientUpdates final : public GroupUpdates {
 public:
  // `group_steps`: of the first update of each group, by group index plus one; [0] is of the state.
  // `full_weight`: that of a worker's full batch.
  ClientUpdates(ParameterClient& client, const Clock& clock, std::vector<uint64_t> group_steps,
                double full_weight, absl::Duration timeout)
      : client_(client),
        clock_(clock),
        group_steps_(std::move(group_steps)),
        full_weight_(full_weight),
        timeout_(timeout) {}

  // Others have come so far before this worker's first step.
  void StartFrom(absl::Span<const uint64_t> group_steps);

  void BeginStep(const StepPlace& place);
  // The same step once more. What it has updated already stays so: these updates, which come again,
  // are not sent again.
  void RepeatStep() { asked_.clear(); }

  bool IsMade(uint32_t group) const override;
  absl::Status Update(uint32_t group, absl::Span<const PushItem> gradients,
                      absl::Span<const PullItem> weights, double weight) override;
  std::unique_ptr<PendingUpdate> StartUpdate(uint32_t group, absl::Span<const PushItem> gradients,
                                             absl::Span<const PullItem> weights,
                                             double weight) override;

  // Once more, after the last step: the values of an optimizer that the workers step themselves,
  // from the one that `tells` them; from the others absent.
  absl::Status Restate(uint32_t group, absl::Span<const PushItem> values, bool tells);

  // State variables: kept by the servers, aggregated over the workers.
  absl::Status PushState(absl::Span<const PushItem> state, uint64_t step);

  // Nobody waits for this worker's steps any more (bounded staleness). `groups`: of the optimizers.
  absl::Status Finish(uint32_t groups);

  // Updates that this attempt has made.
  uint64_t total() const { return total_; }
  // True: each of the groups had an update in the step before `step`, which was not the attempt's
  // first, and none ever had several in one step: so that who sees the updates sees where that step
  // ended.
  bool ShowTheEndOfStepBefore(uint64_t step, size_t groups) const;

  // Of updates since it was asked last: push, wait and pull. Of one that was started while the step
  // went on, what was waited for it.
  StepSeconds TakeSeconds() { return std::exchange(seconds_, StepSeconds()); }

  // Pushes of which something came too late and was dropped (backup workers).
  uint64_t late_pushes() const { return late_pushes_; }
  // The step that the others are in, as far as the servers have said; 0: they have not.
  uint64_t next_step() const { return next_step_; }

  // Of the newest update: updates by others between the weights that it was made on and its
  // arrival.
  uint64_t staleness() const { return staleness_; }

 private:
  class Started;

  PushOptions NextOptions(uint32_t group);
  // Of the step's next update.
  PushOptions OptionsOf(uint32_t group, double weight);
  void CountMade(uint32_t group);
  void Note(uint32_t group, const PushStats& stats);

  ParameterClient& client_;
  const Clock& clock_;
  std::vector<uint64_t> group_steps_;
  const double full_weight_;
  const absl::Duration timeout_;
  StepPlace place_;
  StepSeconds seconds_;
  std::map<uint32_t, uint32_t> asked_;  // by group: updates, since the step began or was repeated
  std::map<uint32_t, uint32_t> made_;   // by group: updates of the step that have been made
  std::map<uint32_t, uint64_t> updated_in_;  // by group: one more than the step of the last update
  bool several_in_a_step_ = false;
  uint64_t total_ = 0;
  uint64_t staleness_ = 0;
  uint64_t late_pushes_ = 0;
  uint64_t next_step_ = 0;
};

}  // namespace weir
