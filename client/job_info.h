// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "weir/job_session.h"
#include "weir/v1/view.pb.h"

namespace weir {

// What a view says to one worker.
JobInfo InfoOf(const v1::JobView& view, uint64_t worker);

// Whether this worker may go on: the job runs, or waits for this worker's initial values.
bool IsReady(const JobInfo& info);

}  // namespace weir
