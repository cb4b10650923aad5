// SPDX-License-Identifier: Apache-2.0
#include "rpc/job_state.h"

#include "absl/strings/str_cat.h"

namespace weir {

bool HasEnded(v1::JobState state) {
  return state == v1::JOB_STATE_FINISHED || state == v1::JOB_STATE_FAILED ||
         state == v1::JOB_STATE_STOPPED;
}

std::string EndOf(const v1::JobView& view) {
  const std::string job = absl::StrCat("job '", view.name(), "'");
  if (view.state() == v1::JOB_STATE_FINISHED) return job + " has finished";
  if (view.state() == v1::JOB_STATE_STOPPED) return absl::StrCat(job, " was ", view.message());
  return absl::StrCat(job, " has failed: ", view.message());
}

}  // namespace weir
