// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "weir/v1/variables.pb.h"

namespace weir {

// The learning rate of an update, by the formulas of variables.proto. `examples_before`: applied
// before it; `examples`: behind it.
double LearningRate(const v1::Schedule& schedule, uint64_t examples_before, uint64_t examples);

// InvalidArgument names the field that makes no sense (a negative or non-finite rate, total below
// warm-up, boundaries not rising).
absl::Status CheckSchedule(const v1::Schedule& schedule);

}  // namespace weir
