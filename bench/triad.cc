// SPDX-License-Identifier: Apache-2.0
#include "bench/triad.h"

namespace weir::bench {

#if defined(__x86_64__)
__attribute__((target_clones("avx2", "default")))
#endif
void Triad(float* __restrict a, const float* __restrict b, float factor, size_t count) {
  for (size_t i = 0; i < count; ++i) a[i] += factor * b[i];
}

}  // namespace weir::bench
