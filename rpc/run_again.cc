// SPDX-License-Identifier: Apache-2.0
#include "rpc/run_again.h"

#include "absl/strings/str_cat.h"
#include "rpc/job_state.h"

namespace weir {
namespace {

std::string GoOnFrom(const v1::Manifest& newest) {
  return absl::StrCat("; go on from checkpoint ", newest.id(), " at step ", newest.step(),
                      " with resume: auto (`weir run --resume auto`), or ");
}

}  // namespace

absl::Status CheckMayBeForgotten(const v1::JobView& last, const v1::Manifest* newest) {
  if (last.state() == v1::JOB_STATE_FAILED && newest == nullptr) return absl::OkStatus();
  const std::string go_on = newest == nullptr ? ", and left no checkpoint; " : GoOnFrom(*newest);
  return absl::FailedPreconditionError(absl::StrCat(EndOf(last), go_on, kBeginAnew));
}

absl::Status CheckMayBeForgotten(const v1::Manifest& newest) {
  return absl::FailedPreconditionError(
      absl::StrCat("job '", newest.job(), "' has checkpoints, of a run that is no longer known",
                   GoOnFrom(newest), kBeginAnew));
}

}  // namespace weir
