// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

#include <string>

#include "weir/variable.h"

namespace weir {

// The dtype as Weir knows it. Throws StepError: InvalidArgument - it does not; names `what`.
DType DTypeOf(const std::string& what, c10::ScalarType type);

}  // namespace weir
