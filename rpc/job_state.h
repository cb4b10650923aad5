// SPDX-License-Identifier: Apache-2.0
// What a job's state means, for all who read it.
#pragma once

#include <string>

#include "weir/v1/view.pb.h"

namespace weir {

// FINISHED, FAILED or STOPPED: the run does not go on.
bool HasEnded(v1::JobState state);

// Of a job that has ended, for people: "job 'r1' has finished", "job 'r1' has failed: REASON",
// "job 'r1' was stopped by command: REASON".
std::string EndOf(const v1::JobView& view);

}  // namespace weir
