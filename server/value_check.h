// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "weir/v1/variables.pb.h"

namespace weir {

// Index of the first NaN or infinity among `count` elements of f32 or f64, which need not be
// aligned; `count` where all are finite.
size_t FirstNotFinite(const std::byte* data, size_t count, v1::DType dtype);

// Index of the first byte that is neither 0 nor 1; `count` where there is none.
size_t FirstNotBool(const std::byte* data, size_t count);

}  // namespace weir
