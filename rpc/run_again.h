// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "weir/v1/coordinator.pb.h"

namespace weir {

// The remedy where a run of this name is in the way: in the job file's words and as it is typed.
inline constexpr char kBeginAnew[] = "begin anew with replace: true (`weir run --replace`)";

// Whether a fresh run of a job may push out its last one, which has ended, where nobody has said
// what is to be done: docs/checkpoints.md, "Running a job again". `newest`: its newest checkpoint;
// null: it has none. Errors: FailedPrecondition - names what to say to go on, or to begin anew.
absl::Status CheckMayBeForgotten(const v1::JobView& last, const v1::Manifest* newest);
// The same where nothing but checkpoints is known of a job's runs: `newest` is one of them.
absl::Status CheckMayBeForgotten(const v1::Manifest& newest);

}  // namespace weir
