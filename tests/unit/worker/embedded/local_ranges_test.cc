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
  LocalRanges ranges =
      RangesOf({.position = 1600, .unfinished = {{0, 240, 250}, {4, 0, 50}, {6, 0, 100}}});
  const LocalRanges::Place begun = ranges.After(0);
  ASSERT_EQ(begun.unfinished.size(), 1);
  EXPECT_EQ(begun.unfinished[0].end, 250);
  EXPECT_EQ(begun.position, 1450);
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
