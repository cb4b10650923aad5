// SPDX-License-Identifier: Apache-2.0
#include "worker/reduction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace weir {
namespace {

// As the servers combine the processes' parts.
TEST(Reduction, OfNoWeightIsUnweightedAndOfBoolsIsWhetherOneIsTrue) {
  const double one = 1;
  const double four = 4;
  double mean = 0;
  Combine(ReduceOp::kMean, DType::kFloat64, 1, {{&one, 0}, {&four, 0}}, &mean);
  EXPECT_EQ(mean, 2.5);
  const bool no[2] = {false, false};
  const bool yes[2] = {false, true};
  bool any[2] = {true, false};
  Combine(ReduceOp::kSum, DType::kBool, 2, {{no, 1}, {yes, 1}}, any);
  EXPECT_FALSE(any[0]);
  EXPECT_TRUE(any[1]);
}

TEST(Reduction, PassesOnWhatIsNoNumber) {
  const float values[2] = {1, std::numeric_limits<float>::quiet_NaN()};
  const float others[2] = {2, 3};
  float result[2];
  Combine(ReduceOp::kMax, DType::kFloat32, 2, {{values, 1}, {others, 1}}, result);
  EXPECT_EQ(result[0], 2);
  EXPECT_TRUE(std::isnan(result[1]));
  Combine(ReduceOp::kMin, DType::kFloat32, 2, {{others, 1}, {values, 1}}, result);
  EXPECT_TRUE(std::isnan(result[1]));
}

}  // namespace
}  // namespace weir
