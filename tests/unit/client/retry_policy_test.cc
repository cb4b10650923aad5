// SPDX-License-Identifier: Apache-2.0
#include "client/retry_policy.h"

#include <gtest/gtest.h>

#include "rpc/errors.h"

namespace weir {
namespace {

TEST(RetryPolicy, OutagesAndFullServersAreRetried) {
  EXPECT_EQ(Judge(absl::UnavailableError("gone"), false), Verdict::kBackOff);
  EXPECT_EQ(Judge(NotInitialised("w", "worker 0"), false), Verdict::kBackOff);
  EXPECT_EQ(Judge(OutOfCredit(2, 1), false), Verdict::kBackOff);
  EXPECT_EQ(Judge(absl::DeadlineExceededError("parked"), false), Verdict::kBackOff);
}

TEST(RetryPolicy, StaleViewsAndRestartedServersAwaitAView) {
  EXPECT_EQ(Judge(StaleView("generation", 1, 2), false), Verdict::kAwaitView);
  EXPECT_EQ(Judge(StaleIncarnation("ps-0"), false), Verdict::kAwaitView);
}

TEST(RetryPolicy, RolledBackAndRemovedWorkersAreTold) {
  EXPECT_EQ(Judge(StaleAttempt(1, 2), false), Verdict::kFail);
  EXPECT_EQ(Judge(NotAMember(WorkerId{1}, "lease"), false), Verdict::kFail);
  EXPECT_EQ(Judge(MemberLeft("rank 1"), false), Verdict::kFail);
}

TEST(RetryPolicy, ReadersFollowRollbacks) {
  EXPECT_EQ(Judge(StaleAttempt(1, 2), true), Verdict::kAwaitView);
}

TEST(RetryPolicy, MistakesAreNotRetried) {
  EXPECT_EQ(Judge(absl::InvalidArgumentError("shape"), false), Verdict::kFail);
  EXPECT_EQ(Judge(absl::FailedPreconditionError("order"), false), Verdict::kFail);
  EXPECT_EQ(Judge(absl::NotFoundError("run"), false), Verdict::kFail);
}

}  // namespace
}  // namespace weir
