// SPDX-License-Identifier: Apache-2.0
#include "server/step_gate.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/errors.h"

namespace weir {

absl::StatusOr<bool> StepGate::Prepare(const v1::PrepareStepRequest& request,
                                       uint64_t steps_begun) {
  if (change_.has_value() && change_->id == request.change_id()) return false;
  // A preparation that its coordinator has given up may still be here: the word of it can come
  // later than the next preparation. And one that has come back does not know what it was about to
  // change.
  const bool newer =
      change_.has_value() && (request.term() > change_->term ||
                              (!change_->committed && request.change_id() > change_->id));
  if (change_.has_value() && !newer) {
    return absl::FailedPreconditionError(
        absl::StrCat("change ", change_->id, " is under way at step ", change_->step));
  }
  if (steps_begun > request.step()) return StepHasBegun(request.step(), steps_begun - 1);
  Change& change = change_.emplace();
  change.id = request.change_id();
  change.term = request.term();
  change.step = request.step();
  change.sync_group = request.sync_group();
  return true;
}

absl::Status StepGate::Commit(const v1::CommitStepRequest& request) {
  if (done_id_ != 0 && request.change_id() == done_id_) return absl::OkStatus();
  if (!change_.has_value() || change_->id != request.change_id()) {
    return absl::AbortedError(absl::StrCat("change ", request.change_id(),
                                           " is not prepared here, or no longer; prepare it anew"));
  }
  if (change_->committed) return absl::OkStatus();
  change_->committed = true;
  change_->cut = request.cut();
  if (request.has_view()) change_->view = request.view();
  return absl::OkStatus();
}

bool StepGate::Abort(uint64_t change_id) {
  if (!change_.has_value() || change_->id != change_id) return false;
  change_.reset();
  return true;
}

bool StepGate::Expire(uint64_t change_id) {
  if (!change_.has_value() || change_->id != change_id || change_->committed) return false;
  change_.reset();
  return true;
}

StepGate::Change StepGate::Take() {
  Change change = *std::move(change_);
  change_.reset();
  done_id_ = change.id;
  return change;
}

}  // namespace weir
