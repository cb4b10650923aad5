// SPDX-License-Identifier: Apache-2.0
#include "rpc/deadlines.h"

#include <algorithm>

#include "absl/time/clock.h"

namespace weir {

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
  return clock.Now() + std::max(left - kDeadlineSlack, left / 2);
}

}  // namespace weir
