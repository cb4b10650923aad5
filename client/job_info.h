// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "rpc/worker_id.h"
#include "weir/job_session.h"
#include "weir/v1/view.pb.h"

namespace weir {

// What a view says to one worker.
JobInfo InfoOf(const v1::JobView& view, WorkerId worker);

// Errors: FailedPrecondition - the job has finished or failed, with its message.
absl::Status CheckNotEnded(const v1::JobView& view);

// Whether this worker may go on: the job runs, or waits for this worker's initial values.
bool IsReady(const JobInfo& info);

}  // namespace weir
