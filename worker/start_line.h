// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "weir/v1/job_spec.pb.h"

namespace weir {

// What a resolved job trains with, for people: "sync: 4 workers; an update takes 256 examples, 64
// of each worker; sgd: learning rate 0.1".
std::string StartLine(const v1::JobSpec& spec);

}  // namespace weir
