// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace weir::bench {

// a[i] += factor * b[i]: the memory's limit. Moves 12 bytes an element.
void Triad(float* a, const float* b, float factor, size_t count);

}  // namespace weir::bench
