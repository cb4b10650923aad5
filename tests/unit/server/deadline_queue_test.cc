// SPDX-License-Identifier: Apache-2.0
#include "server/deadline_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

absl::Time At(int seconds) {
  return absl::UnixEpoch() + absl::Seconds(seconds);
}

TEST(DeadlineQueue, OnlyAnEarlierDeadlineNeedsANewTimer) {
  DeadlineQueue queue;
  EXPECT_TRUE(queue.Add(1, At(10)));
  EXPECT_FALSE(queue.Add(2, At(20)));
  EXPECT_TRUE(queue.Add(3, At(5)));
}

TEST(DeadlineQueue, GivesWhatIsDueAndTheNextTimer) {
  DeadlineQueue queue;
  queue.Add(1, At(10));
  queue.Add(2, At(10));
  queue.Add(3, At(20));
  EXPECT_THAT(queue.TakeDue(At(10), At(10)), ElementsAre(1, 2));
  EXPECT_EQ(queue.TakeNext(), At(20));
  EXPECT_EQ(queue.TakeNext(), absl::InfiniteFuture());
}

TEST(DeadlineQueue, ATimerWhoseDeadlineIsGoneGivesNothingAndArmsTheNext) {
  DeadlineQueue queue;
  queue.Add(1, At(10));
  queue.Add(2, At(20));
  queue.Remove(1);
  EXPECT_THAT(queue.TakeDue(At(10), At(10)), IsEmpty());
  EXPECT_EQ(queue.TakeNext(), At(20));
}

TEST(DeadlineQueue, TimersDoNotMultiply) {
  DeadlineQueue queue;
  queue.Add(1, At(10));
  queue.Add(2, At(5));  // a second timer
  EXPECT_THAT(queue.TakeDue(At(5), At(5)), ElementsAre(2));
  EXPECT_EQ(queue.TakeNext(), At(10));  // a third, beside the first
  queue.Add(3, At(30));
  EXPECT_THAT(queue.TakeDue(At(10), At(10)), ElementsAre(1));
  EXPECT_EQ(queue.TakeNext(), At(30));
  EXPECT_THAT(queue.TakeDue(At(10), At(10)), IsEmpty());
  EXPECT_EQ(queue.TakeNext(), absl::InfiniteFuture());
}

}  // namespace
}  // namespace weir
