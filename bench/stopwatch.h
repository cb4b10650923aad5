// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace weir::bench {

// Seconds since its making. Thread-safe: it only reads a clock.
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace weir::bench
