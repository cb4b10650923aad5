// SPDX-License-Identifier: Apache-2.0
// Deadlines are times of a steady Clock; gRPC's are of the system clock. They are converted by what
// remains, so a jump of the system clock moves none of ours.
#pragma once

#include <chrono>

#include "absl/time/time.h"
#include "common/clock.h"

namespace weir {

// The caller's gRPC deadline lies so much behind its own, that the peer's answer about a wait that
// ran out, which names who was waited for, arrives before gRPC's, which names nobody.
inline constexpr absl::Duration kDeadlineSlack = absl::Seconds(1);
// A peer that sets no deadline gets this one: nothing waits for ever.
inline constexpr absl::Duration kLongestCall = absl::Minutes(10);

// For a ClientContext: `deadline` and the slack.
std::chrono::system_clock::time_point ToGrpcDeadline(absl::Time deadline, const Clock& clock);
// Of a ServerContext: the caller's own deadline; where less than two slacks remain, half of what
// does.
absl::Time FromGrpcDeadline(std::chrono::system_clock::time_point deadline, const Clock& clock);

}  // namespace weir
