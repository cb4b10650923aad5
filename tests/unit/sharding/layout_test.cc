// SPDX-License-Identifier: Apache-2.0
#include "sharding/layout.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kKiB = 1 << 10;
constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kGiB = 1 << 30;

TEST(Layout, DefaultShardsAreATwoHundredFiftySixthWithinBounds) {
  EXPECT_EQ(DefaultShardBytes(0), 256 * kKiB);
  EXPECT_EQ(DefaultShardBytes(64 * kMiB), 256 * kKiB);
  EXPECT_EQ(DefaultShardBytes(512 * kMiB), 2 * kMiB);
  EXPECT_EQ(DefaultShardBytes(kGiB), 4 * kMiB);
  EXPECT_EQ(DefaultShardBytes(1ull << 50), 4 * kMiB);
}

TEST(Layout, ShardsAreWholeChunks) {
  EXPECT_EQ(Layout({}, 300 * kKiB, 128 * kKiB).shard_bytes(), 384 * kKiB);
  EXPECT_EQ(Layout({}, 1, 128 * kKiB).shard_bytes(), 128 * kKiB);
}

TEST(Layout, AVariableIsCutIntoEqualShardsAndARest) {
  const std::vector<VariableExtent> variables = {{.elements = 100'000, .element_bytes = 4}};
  const Layout layout(variables, 256 * kKiB, 64 * kKiB);
  // 65,536 elements of 4 bytes a shard, 16,384 a chunk: 34,464 are left, in three chunks
  ASSERT_EQ(layout.shards().size(), 2u);
  EXPECT_EQ(layout.shards()[0].elements, 65'536u);
  EXPECT_EQ(layout.shards()[0].num_chunks(), 4u);
  EXPECT_EQ(layout.shards()[1].first_element, 65'536u);
  EXPECT_EQ(layout.shards()[1].elements, 34'464u);
  EXPECT_EQ(layout.shards()[1].num_chunks(), 3u);
}

TEST(Layout, VariablesWithoutElementsAreLegalAndHaveNoShards) {
  const std::vector<VariableExtent> variables = {{0, 4}, {1, 8}, {0, 1}, {0, 4}, {5, 4}, {0, 4}};
  WEIR_ASSERT_OK(CheckLayout(variables, 0));
  const Layout layout(variables, 0);
  ASSERT_EQ(layout.shards().size(), 2u);
  EXPECT_EQ(layout.shards()[0].variable, VariableId{1});
  EXPECT_EQ(layout.shards()[1].variable, VariableId{4});
  EXPECT_TRUE(layout.ShardsOf(VariableId{0}).empty());
  EXPECT_TRUE(layout.ShardsOf(VariableId{5}).empty());
  EXPECT_EQ(layout.total_bytes(), 28u);
}

TEST(Layout, AJobWithoutVariablesIsLegal) {
  WEIR_ASSERT_OK(CheckLayout({}, 0));
  EXPECT_TRUE(Layout({}, 0).shards().empty());
  EXPECT_TRUE(PlaceShards({}, 3).empty());
}

// The elements at the far end, and the sum over all, of one variable of f32 or bool.
void ExpectCovers(uint64_t elements, uint32_t element_bytes, uint64_t shards) {
  const std::vector<VariableExtent> variables = {{elements, element_bytes}};
  WEIR_ASSERT_OK(CheckLayout(variables, 0));
  const Layout layout(variables, 0);
  EXPECT_EQ(layout.total_bytes(), elements * element_bytes);
  ASSERT_EQ(layout.shards().size(), shards);
  const Shard& last = layout.shards().back();
  EXPECT_EQ(last.id, ShardId{shards - 1});
  EXPECT_EQ(last.first_element + last.elements, elements);
  uint64_t sum = 0;
  for (const Shard& shard : layout.shards()) sum += shard.elements;
  EXPECT_EQ(sum, elements);
}

TEST(Layout, SizesBeyondTwoToTheThirtyFirstAreRight) {
  ExpectCovers(3 * kGiB / 4, 4, 768);      // 3 GiB of f32 in shards of 4 MiB
  ExpectCovers((1ull << 31) + 1, 1, 513);  // 2 GiB and one element of bool
  ExpectCovers((1ull << 32) + 3, 4, 4 * 1024 + 1);
}

TEST(Layout, SizesOfATebibyteAndBeyondTwoToTheFortyElementsAreRight) {
  ExpectCovers((1ull << 40) / 4, 4, 256 * 1024);      // 1 TiB of f32
  ExpectCovers((1ull << 40) + 1, 1, 256 * 1024 + 1);  // 2^40 + 1 of bool
}

TEST(CheckLayout, RefusesMoreShardsThanAJobMayHave) {
  const std::vector<VariableExtent> variables = {{1ull << 50, 4}};
  EXPECT_THAT(CheckLayout(variables, 0),
              HasStatus(absl::StatusCode::kResourceExhausted, HasSubstr("ask for larger shards")));
  WEIR_EXPECT_OK(CheckLayout(variables, 4 * kGiB));
}

TEST(CheckLayout, RefusesSizesThatOverflow) {
  std::vector<VariableExtent> variables = {{1ull << 63, 8}};
  EXPECT_THAT(CheckLayout(variables, 0),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("variable 0")));
  variables = {{1ull << 61, 1}, {1ull << 61, 1}, {1, 4}};
  EXPECT_THAT(CheckLayout(variables, 1ull << 50),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("variable 2")));
  EXPECT_THAT(CheckLayout({}, ~uint64_t{0}),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("beyond")));
}

TEST(CheckLayout, RefusesElementsThatDoNotFitAChunk) {
  const std::vector<VariableExtent> none = {{1, 0}};
  EXPECT_THAT(CheckLayout(none, 0),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("variable 0")));
  const std::vector<VariableExtent> wide = {{1, 8}};
  EXPECT_THAT(CheckLayout(wide, 0, 4),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("chunks of 4 bytes")));
}

TEST(CheckLayout, RefusesChunksOfNoBytesAlsoWhereThereIsNothingToCut) {
  const std::vector<VariableExtent> wide = {{1, 8}};
  for (const absl::Span<const VariableExtent> variables :
       {absl::MakeConstSpan(wide), absl::Span<const VariableExtent>()}) {
    EXPECT_THAT(CheckLayout(variables, 0, 0),
                HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("chunks of 0 bytes")));
  }
}

TEST(PlaceShards, GivesLargestFirstToTheLeastLoaded) {
  const std::vector<VariableExtent> variables = {{10, 4}, {40, 4}, {20, 4}, {30, 4}};
  // 40 to server 0; 30 to 1; 20 to 1, which has less than 0; 10 to 0
  EXPECT_EQ(PlaceShards(Layout(variables, 0).shards(), 2), (std::vector<uint32_t>{0, 0, 1, 1}));
}

}  // namespace
}  // namespace weir
