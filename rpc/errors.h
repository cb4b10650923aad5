// SPDX-License-Identifier: Apache-2.0
// Named errors that both ends of an RPC know, each with its test. The kind travels in the message's
// leading "[tag] ", which gRPC carries unchanged.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "rpc/worker_id.h"

namespace weir {

// ABORTED: refresh the view, then retry with the same sequence.
absl::Status StaleView(absl::string_view what, uint64_t have, uint64_t want);
bool IsStaleView(const absl::Status& status);

// ABORTED: the attempt was rolled back; the step to resume from is in the newer view.
absl::Status StaleAttempt(uint64_t have, uint64_t want);
bool IsStaleAttempt(const absl::Status& status);

// ABORTED: the server has been restarted; its state is not what the sender believes.
absl::Status StaleIncarnation(absl::string_view server);
bool IsStaleIncarnation(const absl::Status& status);

// ABORTED: the coordinator ended this worker's lease, or it left; it must join anew.
absl::Status NotAMember(WorkerId worker, absl::string_view why);
bool IsNotAMember(const absl::Status& status);

// ABORTED: a member has left within the step: its collectives cannot be had. The step can be
// repeated at once, without it; nothing was rolled back.
absl::Status MemberLeft(absl::string_view what);
bool IsMemberLeft(const absl::Status& status);

// UNAVAILABLE: the server has an older view than the request.
absl::Status ViewNotYetKnown(absl::string_view what, uint64_t have, uint64_t want);

// UNAVAILABLE: nobody has assigned initial values yet.
absl::Status NotInitialised(absl::string_view variable, absl::string_view expected_from);
bool IsNotInitialised(const absl::Status& status);

// RESOURCE_EXHAUSTED, with the numbers.
absl::Status OutOfMemory(absl::string_view what, uint64_t needed_bytes, uint64_t used_bytes,
                         uint64_t limit_bytes);
absl::Status OutOfCredit(uint64_t in_flight_bytes, uint64_t credit_bytes);

// INVALID_ARGUMENT: a gradient with NaN or Inf; nothing was touched.
absl::Status NotFinite(absl::string_view variable, uint64_t element, WorkerId worker,
                       uint64_t step);
bool IsNotFinite(const absl::Status& status);

// FAILED_PRECONDITION: PrepareStep came too late for `step`; `highest_begun` is the highest step
// that is open or closed on this server, 0 where none is.
absl::Status StepHasBegun(uint64_t step, uint64_t highest_begun);
// The highest step that such an error names; nullopt: another error.
absl::optional<uint64_t> HighestBegunStep(const absl::Status& status);

// True for what a retry of the same request may cure: Unavailable, ResourceExhausted.
bool IsRetryable(const absl::Status& status);

}  // namespace weir
