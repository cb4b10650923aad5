// SPDX-License-Identifier: Apache-2.0
#include "client/push_ledger.h"

#include <gmock/gmock.h>

#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PushLedger, SequencesCountFromOneInEachGroup) {
  PushLedger ledger(3);
  EXPECT_EQ(*ledger.Begin({1, 0, 0}), 1u);
  EXPECT_EQ(*ledger.Begin({1, 0, 0}), 2u);
  EXPECT_EQ(*ledger.Begin({2, 0, 0}), 1u);
}

TEST(PushLedger, ThirdPushUnderWayIsRefusedAndTakesNoSequence) {
  PushLedger ledger(2);
  const uint64_t first = *ledger.Begin({1, 0, 0});
  WEIR_ASSERT_OK(ledger.Begin({1, 0, 0}));
  EXPECT_THAT(ledger.Begin({1, 0, 0}),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("two pushes")));
  ledger.End(1, first, absl::OkStatus());
  EXPECT_EQ(*ledger.Begin({1, 0, 0}), 3u);
}

TEST(PushLedger, AfterAFailedPushItsGroupIsClosed) {
  PushLedger ledger(3);
  ledger.End(1, *ledger.Begin({1, 0, 0}), absl::DeadlineExceededError("too late"));
  EXPECT_THAT(ledger.Begin({1, 0, 0}),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("too late")));
  WEIR_EXPECT_OK(ledger.Begin({2, 0, 0}));
}

TEST(PushLedger, AttemptThatIsOverStaysAborted) {
  PushLedger ledger(2);
  ledger.End(1, *ledger.Begin({1, 0, 0}), absl::AbortedError("rolled back"));
  EXPECT_THAT(ledger.Begin({1, 1, 0}),
              HasStatus(absl::StatusCode::kAborted, HasSubstr("rolled back")));
}

TEST(PushLedger, MarkDividesWhatHasBegunFromWhatComes) {
  PushLedger ledger(2);
  WEIR_ASSERT_OK(ledger.Begin({1, 0, 64}));
  WEIR_ASSERT_OK(ledger.Begin({1, 0, 128}));
  const auto cut = ledger.Mark(5);
  ASSERT_TRUE(cut.has_value());
  EXPECT_EQ(cut->cut, 5u);
  EXPECT_THAT(cut->last_sequence, ElementsAre(0, 2));
  EXPECT_EQ(cut->consumed, 128u);
  EXPECT_EQ(cut->next_step, 1u);
  EXPECT_FALSE(ledger.Mark(5).has_value());
  EXPECT_EQ(ledger.cut_sequence(1), 2u);
}

TEST(PushLedger, OnlyAcknowledgedPushesCountAsConsumed) {
  PushLedger ledger(2);
  const uint64_t first = *ledger.Begin({1, 0, 64});
  const uint64_t second = *ledger.Begin({1, 0, 128});
  ledger.End(1, second, absl::OkStatus());
  EXPECT_EQ(ledger.acknowledged(), 0u);
  ledger.End(1, first, absl::OkStatus());
  EXPECT_EQ(ledger.acknowledged(), 128u);
}

}  // namespace
}  // namespace weir
