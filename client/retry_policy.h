// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "rpc/backoff.h"

namespace weir {

// What a client does about a server's answer.
enum class Verdict {
  kTake,  // it is the answer
  // The same request again, after a while; also where a server had waited as long as it was told.
  kBackOff,
  kAwaitView,  // the same request again, under a newer view
  kFail,       // the operation ends
};

// `follows_attempts`: the caller (a reader) does not care about rollbacks.
Verdict Judge(const absl::Status& answer, bool follows_attempts);

// Between two attempts at a server.
Backoff::Options ServerBackoff(uint64_t seed);

}  // namespace weir
