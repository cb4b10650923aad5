// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace weir {

// While it lives, this thread's denormal operands and results count as zero: in slots that decay
// for long they would make an update many times slower. Elsewhere than on x86-64 it does nothing.
// Used from one thread.
class FlushToZero {
 public:
#if defined(__x86_64__)
  FlushToZero() : before_(_mm_getcsr()) {
    _mm_setcsr(before_ | kFlushResults | kFlushOperands);
  }
  ~FlushToZero() {
    _mm_setcsr(before_);
  }
#else
  FlushToZero() {}
#endif
  FlushToZero(const FlushToZero&) = delete;
  FlushToZero& operator=(const FlushToZero&) = delete;

#if defined(__x86_64__)
 private:
  static constexpr unsigned kFlushResults = 1u << 15;
  static constexpr unsigned kFlushOperands = 1u << 6;
  const unsigned before_;
#endif
};

}  // namespace weir
