// SPDX-License-Identifier: Apache-2.0
#include "rpc/deadlines.h"

#include <gmock/gmock.h>

#include "rpc/channels.h"
#include "tests/support/manual_executor.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using std::chrono::system_clock;
using ::testing::HasSubstr;

absl::Duration Remaining(system_clock::time_point deadline) {
  return absl::FromChrono(deadline - system_clock::now());
}

TEST(Deadlines, CallersGrpcDeadlineIsASecondBehindItsOwn) {
  FakeClock clock;
  const absl::Duration left = Remaining(ToGrpcDeadline(clock.Now() + absl::Seconds(30), clock));
  EXPECT_GT(left, absl::Seconds(30));
  EXPECT_LE(left, absl::Seconds(31));
}

TEST(Deadlines, PeerAnswersByTheCallersOwn) {
  FakeClock clock;
  const absl::Time deadline =
      FromGrpcDeadline(system_clock::now() + std::chrono::seconds(31), clock);
  EXPECT_LE(deadline - clock.Now(), absl::Seconds(30));
  EXPECT_GT(deadline - clock.Now(), absl::Seconds(29));
}

TEST(Deadlines, WhatGrpcRoundsUpOnTheWayMakesNoDeadlineLater) {
  FakeClock clock;
  for (int seconds : {150, 60, 5}) {
    const absl::Duration rounded = absl::Seconds(seconds) * 1.001;
    const absl::Time deadline = FromGrpcDeadline(
        system_clock::now() + absl::ToChronoMicroseconds(rounded + kDeadlineSlack), clock);
    EXPECT_LE(deadline - clock.Now(), absl::Seconds(seconds));
    EXPECT_GT(deadline - clock.Now(), absl::Seconds(seconds) - absl::Seconds(2));
  }
}

TEST(Deadlines, ShortDeadlinesKeepHalfForTheAnswer) {
  FakeClock clock;
  const absl::Time deadline =
      FromGrpcDeadline(system_clock::now() + std::chrono::milliseconds(1000), clock);
  EXPECT_GT(deadline - clock.Now(), absl::Milliseconds(300));
  EXPECT_LE(deadline - clock.Now(), absl::Milliseconds(500));
}

TEST(Deadlines, NothingWaitsForEver) {
  FakeClock clock;
  EXPECT_EQ(FromGrpcDeadline(system_clock::time_point::max(), clock), clock.Now() + kLongestCall);
  EXPECT_LE(Remaining(ToGrpcDeadline(absl::InfiniteFuture(), clock)),
            kLongestCall + kDeadlineSlack);
}

TEST(Channels, AddressesAreHostAndPort) {
  for (const char* good :
       {"127.0.0.1:4660", "localhost:0", "[::1]:80", "weir-0.weir:65535", "unix:/tmp/x"}) {
    WEIR_EXPECT_OK(CheckAddress(good));
  }
  for (const char* bad :
       {"", "host", ":4660", "host:", "host:99999", "host:-1", "::1:80", "host:4x"}) {
    EXPECT_THAT(CheckAddress(bad), HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr(bad)));
  }
}

TEST(Channels, PlaintextWhereOthersReachItNeedsTheFlag) {
  EXPECT_TRUE(IsLoopback("127.0.0.1:1"));
  EXPECT_TRUE(IsLoopback("[::1]:1"));
  EXPECT_FALSE(IsLoopback("0.0.0.0:1"));
  EXPECT_FALSE(IsLoopback("[::]:1"));
  EXPECT_THAT(Serve({.listen = "0.0.0.0:0"}).status(),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("--insecure-listen")));
}

}  // namespace
}  // namespace weir
