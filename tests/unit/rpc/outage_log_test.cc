// SPDX-License-Identifier: Apache-2.0
#include "rpc/outage_log.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

class OutageLogTest : public testing::Test {
 protected:
  std::string FailAt(int64_t seconds, const std::string& peer = "server ps-0 (ps-0:1)") {
    return log_.Fail(peer, "connection refused", At(seconds), At(600));
  }
  static absl::Time At(int64_t seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

  OutageLog log_;
};

TEST_F(OutageLogTest, IsToldAfterTenSecondsAndThenEveryThirty) {
  EXPECT_EQ(FailAt(0), "");
  EXPECT_EQ(FailAt(9), "");
  EXPECT_EQ(FailAt(10),
            "server ps-0 (ps-0:1): every call has failed for 10 s: connection refused; gives up in "
            "9:50");
  EXPECT_EQ(FailAt(39), "");
  EXPECT_NE(FailAt(40), "");
}

TEST_F(OutageLogTest, TheEndIsToldOnce) {
  FailAt(0);
  FailAt(10);
  EXPECT_EQ(log_.Succeed("server ps-0 (ps-0:1)", At(45)),
            "server ps-0 (ps-0:1): answers again after 45 s");
  EXPECT_EQ(log_.Succeed("server ps-0 (ps-0:1)", At(46)), "");
}

TEST_F(OutageLogTest, WhatWasShortIsNotTold) {
  FailAt(0);
  EXPECT_EQ(log_.Succeed("server ps-0 (ps-0:1)", At(5)), "");
  EXPECT_EQ(FailAt(11), "");  // another one
}

TEST_F(OutageLogTest, EachPeerHasItsOwn) {
  FailAt(0);
  FailAt(5, "server ps-1 (ps-1:1)");
  EXPECT_NE(FailAt(12), "");
  EXPECT_EQ(FailAt(12, "server ps-1 (ps-1:1)"), "");
}

TEST_F(OutageLogTest, WhoTriesForEverSaysSo) {
  FailAt(0, "coordinator a:1");
  EXPECT_EQ(log_.Fail("coordinator a:1", "refused", At(10), absl::InfiniteFuture()),
            "coordinator a:1: every call has failed for 10 s: refused; tries on");
}

}  // namespace
}  // namespace weir
