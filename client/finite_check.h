// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "weir/v1/variables.pb.h"

namespace weir {

// The first element that is NaN or infinite, of `elements` contiguous ones; integers have none.
// Runs at the speed of memory.
std::optional<uint64_t> FirstNotFinite(v1::DType dtype, const void* data, uint64_t elements);

}  // namespace weir
