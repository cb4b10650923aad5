// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>

#include "absl/time/time.h"
#include "common/clock.h"

namespace weir {

// How long to wait before the next attempt: exponential, with jitter so that peers that failed
// together do not come back together. Deterministic for a seed. Used from one thread.
class Backoff {
 public:
  struct Options {
    absl::Duration initial = absl::Milliseconds(50);
    absl::Duration max = absl::Seconds(2);
    double multiplier = 2.0;
    // A wait is within this fraction of its nominal value, and never above `max`.
    double jitter = 0.25;
    // After so long without a failure the next one starts from `initial` again.
    absl::Duration forget_after = absl::Seconds(30);
    uint64_t seed = 0;
  };

  // `clock` must outlive this.
  Backoff(const Clock& clock, Options options)
      : clock_(clock), options_(options), random_(options.seed), nominal_(options.initial) {}

  // One more failure: how long to wait now.
  absl::Duration Next() {
    const absl::Time now = clock_.Now();
    if (now - last_failure_ > options_.forget_after) Reset();
    const double factor = 1.0 + options_.jitter * (2.0 * Uniform() - 1.0);
    const absl::Duration wait = std::min(nominal_ * factor, options_.max);
    nominal_ = std::min(nominal_ * options_.multiplier, options_.max);
    last_failure_ = now + wait;
    return wait;
  }
  // A success: the next failure starts from `initial`.
  void Reset() { nominal_ = options_.initial; }

 private:
  // In [0, 1). Not std::uniform_real_distribution, whose values are each library's own.
  double Uniform() { return static_cast<double>(random_() >> 11) * 0x1.0p-53; }

  const Clock& clock_;
  const Options options_;
  std::mt19937_64 random_;
  absl::Duration nominal_;
  absl::Time last_failure_ = absl::InfinitePast();
};

// The same for who counts its `failures` in a row itself, and shares them with nobody: `first`,
// then twice as long each time, `most` at most.
inline absl::Duration DelayAfter(int failures, absl::Duration first, absl::Duration most) {
  return std::min(first * (int64_t{1} << std::clamp(failures - 1, 0, 20)), most);
}

}  // namespace weir
