// SPDX-License-Identifier: Apache-2.0
#include "worker/embedded/local_ranges.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

LocalRanges RangesOf(LocalRanges::Place place) {
  LocalRanges ranges({.epoch_examples = 250, .batch = 100, .total_examples = 500});
  ranges.Start(std::move(place));
  return ranges;
}

TEST(LocalRanges, UnfinishedRangesOfAClusterComeFirst) {
  LocalRanges ranges = RangesOf({.position = 300, .unfinished = {{0, 100, 200}, {0, 240, 250}}});
  EXPECT_EQ(ranges.Take(100).ranges[0].first, 100);
  EXPECT_EQ(ranges.Take(100).ranges[0].first, 240);
  const TakenRanges next = ranges.Take(100);
  EXPECT_EQ(next.ranges[0].epoch, 1);
  EXPECT_EQ(next.ranges[0].first, 50);
  EXPECT_TRUE(ranges.Take(1000).ranges.size() == 1 && ranges.Take(1).end_of_data);
}

TEST(LocalRanges, UnfinishedRangesBeyondTheTrainingSetAreLeftOut) {
  LocalRanges ranges = RangesOf({.position = 300, .unfinished = {{0, 240, 400}, {0, 500, 600}}});
  const TakenRanges clipped = ranges.Take(100);
  EXPECT_EQ(clipped.ranges[0].first, 240);
  EXPECT_EQ(clipped.ranges[0].end, 250);
  EXPECT_EQ(ranges.Take(100).ranges[0].epoch, 1);
}

TEST(LocalRanges, WhatWasHandedOutBehindALengthThatIsShorterNowIsNotTrainedOn) {
  LocalRanges ranges = RangesOf({.position = 600, .unfinished = {{0, 240, 250}, {2, 0, 100}}});
  const LocalRanges::Place begun = ranges.After(0);
  ASSERT_EQ(begun.unfinished.size(), 1);
  EXPECT_EQ(begun.unfinished[0].end, 250);
  EXPECT_EQ(begun.position, 500);
  EXPECT_EQ(ranges.Take(100).ranges[0].first, 240);
  EXPECT_TRUE(ranges.Take(100).end_of_data);
}

// 400 of 500 are done, 50 of these behind the first 500.
TEST(LocalRanges, NoMoreIsHandedOutThanTheLengthLessWhatIsDone) {
  LocalRanges ranges = RangesOf({.position = 750, .unfinished = {{0, 100, 250}, {2, 50, 250}}});
  const TakenRanges taken = ranges.Take(100);
  ASSERT_EQ(taken.ranges.size(), 1);
  EXPECT_EQ(taken.ranges[0].first, 100);
  EXPECT_EQ(taken.ranges[0].end, 200);
  EXPECT_TRUE(ranges.Take(100).end_of_data);
  const LocalRanges::Place end = ranges.After(100);
  ASSERT_EQ(end.unfinished.size(), 1);
  EXPECT_EQ(end.unfinished[0].first, 200);
  EXPECT_EQ(end.position, 550);
}

// Positions 500 to 750 were not done and 750 to 1000 were, when the length became 500.
TEST(LocalRanges, WhatWaitsBehindALengthIsHandedOutOnceByALongerRun) {
  LocalRanges shorter = RangesOf({.position = 1000, .unfinished = {{2, 0, 250}}});
  EXPECT_TRUE(shorter.Take(100).end_of_data);
  LocalRanges longer({.epoch_examples = 250, .batch = 100, .total_examples = 1250});
  longer.Start(shorter.After(0));
  const TakenRanges waited = longer.Take(100);
  ASSERT_EQ(waited.ranges.size(), 1);
  EXPECT_EQ(waited.ranges[0].epoch, 2);
  EXPECT_EQ(waited.ranges[0].end, 250);
  const TakenRanges next = longer.Take(1000);
  ASSERT_EQ(next.ranges.size(), 1);
  EXPECT_EQ(next.ranges[0].epoch, 4);
  EXPECT_EQ(next.ranges[0].first, 0);
  EXPECT_TRUE(longer.Take(1).end_of_data);
}

TEST(LocalRanges, WhatIsLeftFollowsFromWhatIsConsumed) {
  const LocalRanges ranges =
      RangesOf({.position = 300, .unfinished = {{0, 100, 200}, {0, 240, 250}}});
  const LocalRanges::Place within = ranges.After(30);
  EXPECT_EQ(within.position, 300);
  ASSERT_EQ(within.unfinished.size(), 2);
  EXPECT_EQ(within.unfinished[0].first, 130);
  const LocalRanges::Place behind = ranges.After(160);  // 100 + 10 + 50
  EXPECT_EQ(behind.position, 350);
  EXPECT_TRUE(behind.unfinished.empty());
}

}  // namespace
}  // namespace weir
