// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace weir {

// For incarnations and runs: from the system's source of randomness, never 0.
uint64_t RandomId();

}  // namespace weir
