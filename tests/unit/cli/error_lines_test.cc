// SPDX-License-Identifier: Apache-2.0
#include "cli/error_lines.h"

#include <gmock/gmock.h>

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ErrorLines, AnErrorIsTheSameInTheLogAndAsLastWords) {
  EXPECT_EQ(ErrorOf("2026-12-01T00:05:49.123 E weir-worker job 'a' has finished"),
            "job 'a' has finished");
  EXPECT_EQ(ErrorOf("weir-worker: job 'a' has finished"), "job 'a' has finished");
  EXPECT_EQ(ErrorOf("mine: no data", "mine"), "no data");
  EXPECT_EQ(ErrorOf("mine: no data", "yours"), "");
}

TEST(ErrorLines, WhatIsNoErrorTellsNone) {
  for (const char* line : {"2026-12-01T00:05:49.123 I weir-worker joining job=a",
                           "2026-12-01T00:05:49.123 W weir-worker E is a letter", "", "E",
                           "2026-12-01T00:05:49.123 E", "epoch 0.50 of 3  own step 12"}) {
    EXPECT_EQ(ErrorOf(line), "") << line;
  }
}

TEST(ErrorLines, WhyAProgramEndedIsInItsErrorsAndInWhatTheRuntimeSays) {
  EXPECT_THAT(LastErrors({"weir-server ready address=127.0.0.1:1",
                          "2026-12-01T00:05:49.123 I weir-server registered",
                          "2026-12-01T00:05:49.124 E weir-server the disk is full",
                          "2026-12-01T00:05:49.125 W weir-server coordinator is away",
                          "terminate called after throwing an instance of 'std::bad_alloc'", ""}),
              ElementsAre("2026-12-01T00:05:49.124 E weir-server the disk is full",
                          "terminate called after throwing an instance of 'std::bad_alloc'"));
}

TEST(ErrorLines, OfManyTheNewestAreTold) {
  EXPECT_THAT(LastErrors({"a", "b", "c", "d", "e"}), ElementsAre("c", "d", "e"));
}

TEST(ErrorLines, AProgramThatWasKilledHasNoneToTell) {
  EXPECT_THAT(LastErrors({"2026-12-01T00:05:49.123 I weir-server registered"}), IsEmpty());
}

}  // namespace
}  // namespace weir
