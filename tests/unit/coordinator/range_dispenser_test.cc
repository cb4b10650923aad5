// SPDX-License-Identifier: Apache-2.0
#include "coordinator/range_dispenser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr RangeHolder kHolder{1};
constexpr uint64_t kEpoch = 10;

RangeDispenser DispenserOf(uint64_t length) {
  return RangeDispenser({.epoch_examples = kEpoch, .batch = 5, .total_examples = length});
}

v1::DataRange Range(uint64_t epoch, uint64_t first, uint64_t end) {
  v1::DataRange range;
  range.set_epoch(epoch);
  range.set_first(first);
  range.set_end(end);
  return range;
}

// "1: 0..9"
template <typename Ranges>
std::vector<std::string> TextOf(const Ranges& ranges) {
  std::vector<std::string> text;
  for (const v1::DataRange& range : ranges) {
    text.push_back(absl::StrCat(range.epoch(), ": ", range.first(), "..", range.end()));
  }
  return text;
}

// All that one holder gets, who has done everything before each request.
std::vector<std::string> TakeAll(RangeDispenser& ranges) {
  std::vector<std::string> taken;
  uint64_t consumed = 0;
  v1::TakeRangesRequest request;
  request.set_examples(1000);
  for (uint64_t number = 1; number <= 100; ++number) {
    request.set_request(number);
    request.set_consumed(consumed);
    const auto reply = ranges.Take(kHolder, request, 1);
    if (!reply.ok() || reply->end_of_data()) return taken;
    for (const v1::DataRange& range : reply->ranges()) consumed += range.end() - range.first();
    for (const std::string& text : TextOf(reply->ranges())) taken.push_back(text);
  }
  ADD_FAILURE() << "no end of the data after 100 requests";
  return taken;
}

v1::Manifest Saved(const RangeDispenser& ranges) {
  v1::Manifest manifest;
  ranges.FillManifest({}, manifest);
  return manifest;
}

RangeDispenser::Place PlaceOf(const v1::Manifest& saved) {
  return {.epoch = saved.next_epoch(),
          .position = saved.next_position(),
          .unfinished = {saved.unfinished().begin(), saved.unfinished().end()}};
}

// Of 40 examples one worker had the first 20 and has done 5, another the rest and has done 11. With
// a length of 30 there are 30 - 16 to be trained on, and one of the first 30 positions is left out,
// because one behind them is done.
TEST(RangeDispenser, NoMoreIsHandedOutThanTheLengthLessWhatIsDone) {
  RangeDispenser ranges = DispenserOf(30);
  ranges.Start({.epoch = 4, .unfinished = {Range(0, 5, 10), Range(1, 0, 10), Range(3, 1, 10)}});
  EXPECT_THAT(TakeAll(ranges), ElementsAre("0: 5..10", "1: 0..5", "1: 5..9"));
  const v1::Manifest saved = Saved(ranges);
  EXPECT_EQ(saved.next_epoch() * kEpoch + saved.next_position(), 31);
  EXPECT_THAT(TextOf(saved.unfinished()), ElementsAre("1: 9..10"));
}

TEST(RangeDispenser, AJobThatHasDoneMoreThanALengthThatIsShorterNowGetsNothing) {
  RangeDispenser ranges = DispenserOf(10);
  ranges.Start({.epoch = 4, .unfinished = {Range(0, 5, 10), Range(3, 1, 10)}});
  EXPECT_THAT(TakeAll(ranges), IsEmpty());
}

// Positions 20 to 30 were not done and 30 to 40 were, when the length became 20.
TEST(RangeDispenser, WhatWaitsBehindALengthIsHandedOutOnceByALongerRun) {
  RangeDispenser shorter = DispenserOf(20);
  shorter.Start({.epoch = 4, .unfinished = {Range(2, 0, 10)}});
  EXPECT_THAT(TakeAll(shorter), IsEmpty());
  RangeDispenser longer = DispenserOf(50);
  longer.Start(PlaceOf(Saved(shorter)));
  EXPECT_THAT(TakeAll(longer), ElementsAre("2: 0..10", "4: 0..5", "4: 5..10"));
}

TEST(RangeDispenser, WhatWaitsBehindALengthOutlivesARestartOfTheCoordinator) {
  RangeDispenser ranges = DispenserOf(20);
  ranges.Start({.epoch = 4, .unfinished = {Range(1, 0, 5), Range(2, 0, 10)}});
  RangeDispenser loaded = DispenserOf(20);
  loaded.Load(ranges.Save());
  EXPECT_THAT(TextOf(Saved(loaded).unfinished()), ElementsAre("1: 0..5", "2: 0..10"));
  EXPECT_THAT(TakeAll(loaded), IsEmpty()) << "25 of 20 are done";
}

}  // namespace
}  // namespace weir
