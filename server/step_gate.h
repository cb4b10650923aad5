// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "weir/v1/server_control.pb.h"

namespace weir {

// A change that falls on one step on all servers: a join, or a sync checkpoint's cut.
//
//   none --Prepare--> prepared --Commit--> committed --all steps before it closed--> none
//                        |--- Abort, or 2 s without a commit ---> none
//
// While there is one, pushes of its step and of later ones are held. Thread-compatible: used under
// the store's lock.
class StepGate {
 public:
  struct Change {
    uint64_t id = 0;
    uint64_t term = 0;
    uint64_t step = 0;
    uint32_t sync_group = 0;  // whose step it is
    bool committed = false;
    uint64_t cut = 0;                    // of a checkpoint; 0: none
    absl::optional<v1::JobView> view{};  // in force from the step on
  };

  bool Holds(uint32_t sync_group, uint64_t step) const {
    return change_.has_value() && sync_group == change_->sync_group && step >= change_->step;
  }
  const absl::optional<Change>& change() const { return change_; }

  // `steps_begun`: one more than the highest step that has begun here.
  // True: a new preparation, for whose end the caller arms a timer; false: repeated.
  // A later preparation replaces one that is not committed, a later term any.
  // Errors: FailedPrecondition - the step has begun, or another change is under way.
  absl::StatusOr<bool> Prepare(const v1::PrepareStepRequest& request, uint64_t steps_begun);
  // Errors: Aborted - the preparation has run out.
  absl::Status Commit(const v1::CommitStepRequest& request);
  // True: there was something to let go of.
  bool Abort(uint64_t change_id);
  // The preparation's time is over. True: it was not committed, and is dropped.
  bool Expire(uint64_t change_id);
  // All steps before the committed change are closed: it happens now.
  Change Take();

 private:
  absl::optional<Change> change_;
  uint64_t done_id_ = 0;  // the last change that happened, for repeated commits
};

}  // namespace weir
