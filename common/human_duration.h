// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/time/time.h"

namespace weir {

// As people read it: "0:07", "1:02:03"; rounded to seconds.
std::string HumanDuration(absl::Duration duration);

}  // namespace weir
