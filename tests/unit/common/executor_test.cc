// SPDX-License-Identifier: Apache-2.0
#include "common/executor.h"

#include <gmock/gmock.h>

#include <vector>

#include "common/notification.h"
#include "tests/support/manual_executor.h"

namespace weir {
namespace {

using ::testing::ElementsAre;

TEST(ThreadPool, RunsEveryTaskBeforeItIsDestroyed) {
  std::atomic<int> runs = 0;
  {
    auto pool = Executor::CreatePool(2);
    for (int i = 0; i < 100; ++i) pool->Run([&] { ++runs; });
  }
  EXPECT_EQ(runs, 100);
}

TEST(ThreadPool, TimerRunsUnlessCancelled) {
  auto pool = Executor::CreatePool(1);
  Notification ran;
  bool cancelled_ran = false;
  const TimerId cancelled = pool->RunAfter(absl::Hours(1), [&] { cancelled_ran = true; });
  pool->RunAfter(absl::Milliseconds(1), [&] { ran.Notify(); });
  EXPECT_TRUE(pool->Cancel(cancelled));
  EXPECT_FALSE(pool->Cancel(cancelled));
  EXPECT_TRUE(ran.WaitFor(absl::Seconds(10)));
  pool.reset();
  EXPECT_FALSE(cancelled_ran);
}

TEST(ManualExecutor, RunsTimersInTheOrderOfTheirTimes) {
  FakeClock clock;
  ManualExecutor executor(clock);
  std::vector<int> order;
  executor.RunAfter(absl::Seconds(2), [&] { order.push_back(2); });
  executor.RunAfter(absl::Seconds(1), [&] { order.push_back(1); });
  executor.RunAfter(absl::Seconds(3), [&] { order.push_back(3); });
  executor.Advance(absl::Seconds(2));
  EXPECT_THAT(order, ElementsAre(1, 2));
}

}  // namespace
}  // namespace weir
