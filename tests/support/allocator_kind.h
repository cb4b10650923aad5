// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>

namespace weir {

// Sanitizers bring allocators of their own, which keep what is freed as they like.
#if defined(__GLIBC__) && !defined(WEIR_SANITIZED)
constexpr bool kGlibcAllocator = true;
#else
constexpr bool kGlibcAllocator = false;
#endif

}  // namespace weir
