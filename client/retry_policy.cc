// SPDX-License-Identifier: Apache-2.0
#include "client/retry_policy.h"

#include "rpc/errors.h"

namespace weir {

Verdict Judge(const absl::Status& answer, bool follows_attempts) {
  if (answer.ok()) return Verdict::kTake;
  if (IsRetryable(answer)) return Verdict::kBackOff;
  switch (answer.code()) {
    case absl::StatusCode::kDeadlineExceeded:
      return Verdict::kBackOff;
    case absl::StatusCode::kAborted:
      if (IsNotAMember(answer) || IsMemberLeft(answer)) return Verdict::kFail;
      if (IsStaleAttempt(answer)) {
        return follows_attempts ? Verdict::kAwaitView : Verdict::kFail;
      }
      return Verdict::kAwaitView;
    default:
      return Verdict::kFail;
  }
}

Backoff::Options ServerBackoff(uint64_t seed) {
  Backoff::Options options;
  options.initial = absl::Milliseconds(20);
  options.max = absl::Seconds(1);
  options.seed = seed;
  return options;
}

}  // namespace weir
