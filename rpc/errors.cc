// SPDX-License-Identifier: Apache-2.0
#include "rpc/errors.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace weir {
namespace {

constexpr absl::string_view kStaleView = "[stale-view] ";
constexpr absl::string_view kStaleAttempt = "[stale-attempt] ";
constexpr absl::string_view kStaleIncarnation = "[stale-incarnation] ";
constexpr absl::string_view kNotAMember = "[not-a-member] ";
constexpr absl::string_view kMemberLeft = "[member-left] ";
constexpr absl::string_view kNotInitialised = "[not-initialised] ";
constexpr absl::string_view kNotFinite = "[not-finite] ";
constexpr absl::string_view kStepHasBegun = "[step-has-begun] ";

bool Is(const absl::Status& status, absl::StatusCode code, absl::string_view tag) {
  return status.code() == code && absl::StartsWith(status.message(), tag);
}

absl::Hex Text(WorkerId worker) {
  return absl::Hex(static_cast<uint64_t>(worker), absl::kZeroPad16);
}

}  // namespace

absl::Status StaleView(absl::string_view what, uint64_t have, uint64_t want) {
  return absl::AbortedError(
      absl::StrCat(kStaleView, "your ", what, " is ", have, ", the job's is ", want));
}
bool IsStaleView(const absl::Status& status) {
  return Is(status, absl::StatusCode::kAborted, kStaleView);
}

absl::Status StaleAttempt(uint64_t have, uint64_t want) {
  return absl::AbortedError(absl::StrCat(kStaleAttempt, "attempt ", have,
                                         " was rolled back; the job is at attempt ", want));
}
bool IsStaleAttempt(const absl::Status& status) {
  return Is(status, absl::StatusCode::kAborted, kStaleAttempt);
}

absl::Status StaleIncarnation(absl::string_view server) {
  return absl::AbortedError(
      absl::StrCat(kStaleIncarnation, "server ", server, " has been restarted"));
}
bool IsStaleIncarnation(const absl::Status& status) {
  return Is(status, absl::StatusCode::kAborted, kStaleIncarnation);
}

absl::Status NotAMember(WorkerId worker, absl::string_view why) {
  return absl::AbortedError(
      absl::StrCat(kNotAMember, "worker ", Text(worker), " is no member of the job: ", why));
}
bool IsNotAMember(const absl::Status& status) {
  return Is(status, absl::StatusCode::kAborted, kNotAMember);
}

absl::Status MemberLeft(absl::string_view what) {
  return absl::AbortedError(absl::StrCat(kMemberLeft, what, "; repeat the step without it"));
}
bool IsMemberLeft(const absl::Status& status) {
  return Is(status, absl::StatusCode::kAborted, kMemberLeft);
}

absl::Status ViewNotYetKnown(absl::string_view what, uint64_t have, uint64_t want) {
  return absl::UnavailableError(absl::StrCat("the server's ", what, " is ", have,
                                             ", the request's ", want, "; the view is on its way"));
}

absl::Status NotInitialised(absl::string_view variable, absl::string_view expected_from) {
  return absl::UnavailableError(absl::StrCat(kNotInitialised, "variable '", variable,
                                             "' has no values yet; expected from ", expected_from));
}
bool IsNotInitialised(const absl::Status& status) {
  return Is(status, absl::StatusCode::kUnavailable, kNotInitialised);
}

absl::Status OutOfMemory(absl::string_view what, uint64_t needed_bytes, uint64_t used_bytes,
                         uint64_t limit_bytes) {
  return absl::ResourceExhaustedError(absl::StrCat(what, " needs ", needed_bytes, " bytes; ",
                                                   used_bytes, " of ", limit_bytes, " are in use"));
}

absl::Status OutOfCredit(uint64_t in_flight_bytes, uint64_t credit_bytes) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "this worker has ", in_flight_bytes, " bytes in flight; its credit is ", credit_bytes));
}

absl::Status NotFinite(absl::string_view variable, uint64_t element, WorkerId worker,
                       uint64_t step) {
  return absl::InvalidArgumentError(
      absl::StrCat(kNotFinite, "the gradient of '", variable, "' is not finite at element ",
                   element, " (worker ", Text(worker), ", step ", step, "); nothing was applied"));
}
bool IsNotFinite(const absl::Status& status) {
  return Is(status, absl::StatusCode::kInvalidArgument, kNotFinite);
}

absl::Status StepHasBegun(uint64_t step, uint64_t highest_begun) {
  return absl::FailedPreconditionError(absl::StrCat(kStepHasBegun, highest_begun,
                                                    " is the highest step begun; ", step,
                                                    " cannot be held any more"));
}
absl::optional<uint64_t> HighestBegunStep(const absl::Status& status) {
  if (!Is(status, absl::StatusCode::kFailedPrecondition, kStepHasBegun)) return absl::nullopt;
  const std::vector<absl::string_view> words =
      absl::StrSplit(absl::StripPrefix(status.message(), kStepHasBegun), absl::MaxSplits(' ', 1));
  uint64_t highest = 0;
  if (!absl::SimpleAtoi(words.front(), &highest)) return absl::nullopt;
  return highest;
}

bool IsRetryable(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable ||
         status.code() == absl::StatusCode::kResourceExhausted;
}

}  // namespace weir
