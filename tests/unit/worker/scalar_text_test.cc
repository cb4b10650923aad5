// SPDX-License-Identifier: Apache-2.0
#include "worker/scalar_text.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

TEST(ScalarText, NumbersMayHaveAnExponentWithoutAPoint) {
  EXPECT_EQ(ParseNumber("1e-3"), 1e-3);
  EXPECT_EQ(ParseNumber("+2.5E4"), 2.5e4);
  EXPECT_EQ(ParseNumber("-0.5"), -0.5);
}

TEST(ScalarText, WordsInfinitiesAndHexadecimalAreNoNumbers) {
  for (const char* text : {"", "fast", "inf", "nan", ".inf", "0x10", "1 2", "1e999"}) {
    EXPECT_EQ(ParseNumber(text), std::nullopt) << text;
  }
}

TEST(ScalarText, CountsAreWholeAndExactTo64Bits) {
  EXPECT_EQ(ParseCount("18446744073709551615"), 18446744073709551615u);
  EXPECT_EQ(ParseCount("1e6"), 1000000u);
  EXPECT_EQ(ParseCount("1.5"), std::nullopt);
  EXPECT_EQ(ParseCount("-1"), std::nullopt);
}

TEST(ScalarText, ExtentsNameTheirUnit) {
  EXPECT_EQ(ParseExtent("0.5 epochs")->epochs(), 0.5);
  EXPECT_EQ(ParseExtent("1 epoch")->epochs(), 1);
  EXPECT_EQ(ParseExtent("500 steps")->steps(), 500u);
  EXPECT_EQ(ParseExtent("60000 examples")->examples(), 60000u);
  EXPECT_EQ(ParseExtent("5 min")->seconds(), 300);
  EXPECT_FALSE(ParseExtent("5").has_value());
  EXPECT_FALSE(ParseExtent("1.5 steps").has_value());
  EXPECT_FALSE(ParseExtent("-1 epoch").has_value());
  EXPECT_FALSE(ParseExtent("5 parsecs").has_value());
}

TEST(ScalarText, SizesAreInBinaryUnits) {
  EXPECT_EQ(ParseBytes("262144"), 262144u);
  EXPECT_EQ(ParseBytes("256 KiB"), 262144u);
  EXPECT_EQ(ParseBytes("1.5GiB"), 1610612736u);
  EXPECT_EQ(ParseBytes("1 MB"), std::nullopt);
}

TEST(ScalarText, WhatIsFormattedReadsBack) {
  for (const double value : {0.0, 0.1, 1e-3, 5e-4, 1.0 / 3, 123456789.25, 1e22}) {
    EXPECT_EQ(ParseNumber(FormatNumber(value)), value);
  }
  for (const char* text : {"1 epoch", "2.5 epochs", "500 steps", "1 example", "5 min", "1.5 s"}) {
    EXPECT_EQ(FormatExtent(*ParseExtent(text)), text);
  }
  for (const uint64_t bytes : {0ull, 1000ull, 262144ull, 1610612736ull, 1ull << 41}) {
    EXPECT_EQ(ParseBytes(FormatBytes(bytes)), bytes);
  }
}

}  // namespace
}  // namespace weir
