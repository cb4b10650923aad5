// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/time/time.h"

namespace weir {

// Where time comes from. Implementations are thread-safe. Steady: it never goes back, and its zero
// means nothing; take wall-clock time for people from WallNow.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;
  virtual absl::Time WallNow() const = 0;

  // The machine's clock. Lives for ever.
  static Clock& Real();
};

}  // namespace weir
