// SPDX-License-Identifier: Apache-2.0
#include "client/finite_check.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace weir {
namespace {

TEST(FiniteCheck, FindsTheFirstOfEachKind) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    std::vector<float> values(5000, 1.5f);
    EXPECT_EQ(FirstNotFinite(v1::DTYPE_F32, values.data(), values.size()), std::nullopt);
    values[4999] = bad;
    EXPECT_EQ(FirstNotFinite(v1::DTYPE_F32, values.data(), values.size()), 4999u);
    values[2048] = bad;
    EXPECT_EQ(FirstNotFinite(v1::DTYPE_F32, values.data(), values.size()), 2048u);
  }
}

TEST(FiniteCheck, LargestAndDenormalValuesAreFinite) {
  const std::vector<double> values = {std::numeric_limits<double>::max(),
                                      -std::numeric_limits<double>::max(),
                                      std::numeric_limits<double>::denorm_min(), -0.0};
  EXPECT_EQ(FirstNotFinite(v1::DTYPE_F64, values.data(), values.size()), std::nullopt);
}

TEST(FiniteCheck, DataNeedNotBeAligned) {
  std::vector<char> bytes(1 + 2 * sizeof(double));
  const double values[2] = {1.0, std::numeric_limits<double>::infinity()};
  std::memcpy(bytes.data() + 1, values, sizeof(values));
  EXPECT_EQ(FirstNotFinite(v1::DTYPE_F64, bytes.data() + 1, 2), 1u);
}

TEST(FiniteCheck, IntegersAndNothingAreFinite) {
  const uint32_t all_ones = 0xffffffffu;
  EXPECT_EQ(FirstNotFinite(v1::DTYPE_I32, &all_ones, 1), std::nullopt);
  EXPECT_EQ(FirstNotFinite(v1::DTYPE_F32, nullptr, 0), std::nullopt);
}

}  // namespace
}  // namespace weir
