// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "weir/v1/job_spec.pb.h"

namespace weir {

// Errors: InvalidArgument - names the key and what was expected; Unimplemented - a key whose
// feature this build does not have.
absl::Status CheckJobSpec(const v1::JobSpec& spec);

// Workers that the job waits for before it starts.
uint32_t MinWorkers(const v1::JobSpec& spec);
absl::Duration StepTimeout(const v1::JobSpec& spec);
absl::Duration OrphanTtl(const v1::JobSpec& spec);

}  // namespace weir
