// SPDX-License-Identifier: Apache-2.0
#include "worker/data/permutation.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

namespace weir {
namespace {

TEST(Permutation, ContainsEachPositionOnce) {
  std::vector<uint64_t> order = Permutation(1, 2, 1000);
  std::sort(order.begin(), order.end());
  for (uint64_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], i);
}

TEST(Permutation, IsAFunctionOfSeedAndEpochAlone) {
  EXPECT_EQ(Permutation(1, 2, 100), Permutation(1, 2, 100));
  EXPECT_NE(Permutation(1, 2, 100), Permutation(1, 3, 100));
  EXPECT_NE(Permutation(1, 2, 100), Permutation(2, 2, 100));
  EXPECT_NE(Permutation(uint64_t{1} << 32, 2, 100), Permutation(0, 2, 100));
}

TEST(Permutation, OfNothingAndOfOneAreOrdinary) {
  EXPECT_TRUE(Permutation(1, 0, 0).empty());
  EXPECT_THAT(Permutation(1, 0, 1), testing::ElementsAre(0));
}

// Each of the 24 orders of 4 is expected 1,000 times in 24,000 draws, give or take 31 (one sigma).
TEST(Permutation, FavoursNoOrder) {
  std::map<std::vector<uint64_t>, int> counts;
  for (uint64_t epoch = 0; epoch < 24000; ++epoch) ++counts[Permutation(7, epoch, 4)];
  EXPECT_EQ(counts.size(), 24u);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 1000, 6 * 31);
}

// Fixed for ever: a checkpoint's data position means this order.
TEST(Permutation, IsTheOneThatCheckpointsMean) {
  EXPECT_THAT(Permutation(1, 0, 8), testing::ElementsAre(7, 6, 0, 5, 2, 3, 1, 4));
}

TEST(MixSeed, DiffersWithEachOfItsParts) {
  std::set<uint64_t> seeds;
  for (uint64_t a = 0; a < 10; ++a) {
    for (uint64_t b = 0; b < 10; ++b) {
      for (uint64_t c = 0; c < 10; ++c) seeds.insert(MixSeed(a, b, c));
    }
  }
  EXPECT_EQ(seeds.size(), 1000u);
}

}  // namespace
}  // namespace weir
