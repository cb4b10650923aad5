// SPDX-License-Identifier: Apache-2.0
#include "client/scatter.h"

#include <gmock/gmock.h>

#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ScatterTest : public ::testing::Test {
 protected:
  ScatterTest() {
    for (uint64_t shard = 0; shard < 2; ++shard) {
      pieces_.push_back({.shard = shard,
                         .elements = 2,
                         .chunk_elements = 8,
                         .element_bytes = 4,
                         .destination = reinterpret_cast<std::byte*>(&into_[2 * shard])});
      v1::Segment& segment = *reply_.header.add_segments();
      segment.set_shard(shard);
      segment.set_count(2);
    }
  }

  float sent_[4] = {1, 2, 3, 4};
  float into_[4] = {0, 0, 0, 0};
  std::vector<Piece> pieces_;
  PullResult reply_;
};

TEST_F(ScatterTest, BytesLandWhereverSlicesEnd) {
  const auto* bytes = reinterpret_cast<const std::byte*>(sent_);
  reply_.payload.Append(bytes, 3);
  reply_.payload.Append(bytes + 3, 0);
  reply_.payload.Append(bytes + 3, 9);
  reply_.payload.Append(bytes + 12, 4);
  WEIR_ASSERT_OK(Scatter(reply_, pieces_, false));
  EXPECT_THAT(into_, ElementsAre(1, 2, 3, 4));
}

TEST_F(ScatterTest, AbsentSegmentsAreLeftAloneWhereTheyMayBe) {
  reply_.header.mutable_segments(0)->set_absent(true);
  reply_.payload.Append(sent_ + 2, 8);
  EXPECT_FALSE(Scatter(reply_, pieces_, false).ok());
  WEIR_ASSERT_OK(Scatter(reply_, pieces_, true));
  EXPECT_THAT(into_, ElementsAre(0, 0, 3, 4));
}

TEST_F(ScatterTest, ReplyThatDoesNotFitWritesNothing) {
  reply_.payload.Append(sent_, 12);
  EXPECT_THAT(Scatter(reply_, pieces_, false),
              HasStatus(absl::StatusCode::kInternal, HasSubstr("12 bytes of payload")));
  reply_.payload.Append(sent_ + 3, 4);
  reply_.header.mutable_segments(1)->set_shard(7);
  EXPECT_THAT(Scatter(reply_, pieces_, false),
              HasStatus(absl::StatusCode::kInternal, HasSubstr("segment 1")));
  EXPECT_THAT(into_, ElementsAre(0, 0, 0, 0));
}

}  // namespace
}  // namespace weir
