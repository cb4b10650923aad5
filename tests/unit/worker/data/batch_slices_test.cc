// SPDX-License-Identifier: Apache-2.0
#include "worker/data/batch_slices.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

using Members = std::vector<JobInfo::Member>;

void ExpectSlice(const BatchSlice& slice, uint64_t epoch, uint64_t first, uint64_t end) {
  EXPECT_EQ(slice.epoch, epoch);
  EXPECT_EQ(slice.first, first);
  EXPECT_EQ(slice.end, end);
}

// 20 examples in batches of 8: steps of 8, 8 and 4 an epoch.
constexpr SyncData kData = {20, 8};

TEST(SyncSlice, DividesTheGlobalBatchAmongTheMembersInTheOrderOfTheirRanks) {
  const Members members = {{0, 0}, {1, 0}};
  ExpectSlice(SyncSlice(kData, 0, members, 0), 0, 0, 4);
  ExpectSlice(SyncSlice(kData, 0, members, 1), 0, 4, 8);
  ExpectSlice(SyncSlice(kData, 1, members, 1), 0, 12, 16);
}

TEST(SyncSlice, TheLastStepOfAnEpochIsShort) {
  const Members members = {{0, 0}, {1, 0}};
  ExpectSlice(SyncSlice(kData, 2, members, 0), 0, 16, 18);
  ExpectSlice(SyncSlice(kData, 3, members, 0), 1, 0, 4);
}

TEST(SyncSlice, GivesTheRemainderToTheFirst) {
  const Members members = {{0, 0}, {2, 0}, {5, 0}};
  ExpectSlice(SyncSlice(kData, 0, members, 0), 0, 0, 3);
  ExpectSlice(SyncSlice(kData, 0, members, 2), 0, 3, 6);
  ExpectSlice(SyncSlice(kData, 0, members, 5), 0, 6, 8);
}

// 6 over four replicas are 2, 2, 1 and 1.
TEST(SyncSlice, DividesAmongTheReplicasOfTheMembers) {
  const SyncData six = {20, 6, 2};
  const std::vector<JobInfo::Member> members = {{0, 0}, {1, 0}};
  ExpectSlice(SyncSlice(six, 0, members, 0), 0, 0, 4);
  ExpectSlice(SyncSlice(six, 0, members, 1), 0, 4, 6);
}

TEST(SyncSlice, CountsAMemberFromItsFirstStepOn) {
  const Members members = {{0, 0}, {1, 2}};
  ExpectSlice(SyncSlice(kData, 1, members, 0), 0, 8, 16);
  EXPECT_EQ(SyncSlice(kData, 1, members, 1).examples(), 0u);
  ExpectSlice(SyncSlice(kData, 2, members, 1), 0, 18, 20);
}

TEST(SyncSlice, MoreMembersThanExamplesLeaveSomeWithNone) {
  const Members members = {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 0}};
  ExpectSlice(SyncSlice(kData, 2, members, 3), 0, 19, 20);
  EXPECT_EQ(SyncSlice(kData, 2, members, 4).examples(), 0u);
}

TEST(PartOf, PartsCoverEverythingOnce) {
  uint64_t next = 0;
  for (uint64_t i = 0; i < 7; ++i) {
    const BatchSlice part = PartOf(10000, i, 7);
    EXPECT_EQ(part.first, next);
    next = part.end;
  }
  EXPECT_EQ(next, 10000u);
}

}  // namespace
}  // namespace weir
