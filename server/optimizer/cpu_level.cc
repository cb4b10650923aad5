// SPDX-License-Identifier: Apache-2.0
#include "server/optimizer/cpu_level.h"

namespace weir {

CpuLevel BestCpuLevel() {
#if defined(WEIR_HAVE_X86_64_V3)
  // What the compiler may use in these loops; older compilers cannot ask for the level by its name.
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2")) {
    return CpuLevel::kX86_64_v3;
  }
#endif
  return CpuLevel::kBaseline;
}

}  // namespace weir
