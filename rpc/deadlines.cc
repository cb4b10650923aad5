// SPDX-License-Identifier: Apache-2.0
#include "rpc/deadlines.h"

#include <algorithm>

#include "absl/time/clock.h"

namespace weir {
namespace {

// By how much gRPC may have rounded a deadline up: it travels in two or three digits.
absl::Duration Rounding(absl::Duration left) {
  if (left > absl::Seconds(100)) return absl::Seconds(1);
  return left > absl::Seconds(10) ? absl::Milliseconds(100) : absl::Milliseconds(10);
}

}  // namespace

std::chrono::system_clock::time_point ToGrpcDeadline(absl::Time deadline, const Clock& clock) {
  const absl::Duration left =
      std::clamp(deadline - clock.Now(), absl::ZeroDuration(), kLongestCall);
  return std::chrono::system_clock::now() + absl::ToChronoMicroseconds(left + kDeadlineSlack);
}

absl::Time FromGrpcDeadline(std::chrono::system_clock::time_point deadline, const Clock& clock) {
  // gRPC gives the end of time where the caller set none; differences with it overflow.
  const auto now = std::chrono::system_clock::now();
  if (deadline > now + absl::ToChronoSeconds(kLongestCall)) return clock.Now() + kLongestCall;
  const absl::Duration left = absl::FromChrono(deadline - now);
  return clock.Now() + std::max(left - Rounding(left) - kDeadlineSlack, left / 2);
}

}  // namespace weir
