// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <thread>

#include "absl/time/time.h"
#include "common/clock.h"

namespace weir {

// Whether `claim()` becomes true within `timeout`: for what real processes and threads do in their
// own time. EXPECT_TRUE(Eventually([&] { return server.memory_bytes() == 0; }));
template <typename Claim>
bool Eventually(Claim claim, absl::Duration timeout = absl::Seconds(20)) {
  const absl::Time until = Clock::Real().Now() + timeout;
  while (!claim()) {
    if (Clock::Real().Now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace weir
