// SPDX-License-Identifier: Apache-2.0
#include "rpc/backoff.h"

#include <gmock/gmock.h>

#include <vector>

#include "tests/support/manual_executor.h"

namespace weir {
namespace {

std::vector<absl::Duration> Waits(Backoff& backoff, FakeClock& clock, int count) {
  std::vector<absl::Duration> waits;
  for (int i = 0; i < count; ++i) {
    waits.push_back(backoff.Next());
    clock.SetNow(clock.Now() + waits.back());
  }
  return waits;
}

TEST(Backoff, DoublesUpToItsMaximum) {
  FakeClock clock;
  Backoff backoff(clock,
                  {.initial = absl::Milliseconds(50), .max = absl::Milliseconds(300), .jitter = 0});
  EXPECT_THAT(
      Waits(backoff, clock, 5),
      testing::ElementsAre(absl::Milliseconds(50), absl::Milliseconds(100), absl::Milliseconds(200),
                           absl::Milliseconds(300), absl::Milliseconds(300)));
}

TEST(Backoff, JitterIsBoundedAndRepeatsForASeed) {
  FakeClock clock;
  Backoff one(clock, {.seed = 1}), same(clock, {.seed = 1}), other(clock, {.seed = 2});
  const auto waits = Waits(one, clock, 20);
  EXPECT_EQ(waits, Waits(same, clock, 20));
  EXPECT_NE(waits, Waits(other, clock, 20));
  EXPECT_GE(waits[0], absl::Milliseconds(50) * 0.75);
  EXPECT_LE(waits[0], absl::Milliseconds(50) * 1.25);
  for (const absl::Duration wait : waits) EXPECT_LE(wait, absl::Seconds(2));
}

TEST(Backoff, StartsAgainAfterASuccessAndAfterALongTimeWithoutFailure) {
  FakeClock clock;
  Backoff backoff(clock, {.jitter = 0});
  Waits(backoff, clock, 3);
  backoff.Reset();
  EXPECT_EQ(backoff.Next(), absl::Milliseconds(50));
  Waits(backoff, clock, 3);
  clock.SetNow(clock.Now() + absl::Minutes(1));
  EXPECT_EQ(backoff.Next(), absl::Milliseconds(50));
}

}  // namespace
}  // namespace weir
