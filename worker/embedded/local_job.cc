// SPDX-License-Identifier: Apache-2.0
#include "worker/embedded/local_job.h"

namespace weir {

absl::StatusOr<Job> OpenLocalJob(const LocalJobOptions&) {
  return absl::UnimplementedError("local jobs are still to come");
}

}  // namespace weir
