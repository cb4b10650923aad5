// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "tests/unit/server/workers_fixture.h"

namespace weir {
namespace {

class StatePush : public WorkersFixture {
 protected:
  template <typename T>
  std::vector<T> After(v1::DType dtype, v1::Aggregation aggregation, const std::vector<T>& anns,
                       const std::vector<T>& bobs, double anns_weight = 1) {
    view = ViewMaker();
    view.edit().set_run_id(++last_run);
    view.AddVariable("state", anns.size(), /*group=*/0, dtype, aggregation);
    view.AddMember(kAnn).AddMember(kBob);
    StartJob(view);
    // Bob first: ranks count, not the order of arrival.
    EXPECT_THAT(Push(bob.Push(bob.SegmentsOf(0), 1, 0), bobs).get(), IsOk());
    v1::PushRequest request = ann.Push(ann.SegmentsOf(0), 1, 0);
    request.set_weight(anns_weight);
    EXPECT_THAT(Push(request, anns).get(), IsOk());
    return Weights<T>(view, 0);
  }
  uint64_t last_run = 100;
};

TEST_F(StatePush, TheMeanIsWeighted) {
  // (3 * 1 + 1 * 5) / 4 = 2
  EXPECT_EQ(After<float>(v1::DTYPE_F32, v1::AGGREGATION_MEAN, {1, 2}, {5, 6}, 3),
            (std::vector<float>{2, 3}));
  EXPECT_EQ(After<double>(v1::DTYPE_F64, v1::AGGREGATION_UNSPECIFIED, {1}, {2}),
            std::vector<double>{1.5});
}

TEST_F(StatePush, IntegersDefaultToTheMaximum) {
  EXPECT_EQ(After<int64_t>(v1::DTYPE_I64, v1::AGGREGATION_UNSPECIFIED, {1, 9}, {5, 6}),
            (std::vector<int64_t>{5, 9}));
}

TEST_F(StatePush, SumMinMax) {
  const int64_t large = int64_t{1} << 40;
  EXPECT_EQ(After<int64_t>(v1::DTYPE_I64, v1::AGGREGATION_SUM, {large}, {large}),
            std::vector<int64_t>{2 * large});
  EXPECT_EQ(After<int32_t>(v1::DTYPE_I32, v1::AGGREGATION_MIN, {-4, 3}, {1, 1}),
            (std::vector<int32_t>{-4, 1}));
  EXPECT_EQ(After<uint8_t>(v1::DTYPE_BOOL, v1::AGGREGATION_MAX, {0, 1}, {0, 0}),
            (std::vector<uint8_t>{0, 1}));
}

TEST_F(StatePush, FirstIsTheLowestLiveRanksAndLastWriteTheLatest) {
  EXPECT_EQ(After<float>(v1::DTYPE_F32, v1::AGGREGATION_FIRST, {1}, {2}), std::vector<float>{1});
  WEIR_ASSERT_OK(Push(bob.Push(bob.SegmentsOf(0), 2, 0), Filled(1, 7)).get());
  EXPECT_EQ(Weights(view, 0), Filled(1, 1));
  EXPECT_EQ(After<float>(v1::DTYPE_F32, v1::AGGREGATION_LAST_WRITE, {1}, {2}),
            std::vector<float>{1});
  WEIR_ASSERT_OK(Push(bob.Push(bob.SegmentsOf(0), 2, 0), Filled(1, 7)).get());
  EXPECT_EQ(Weights(view, 0), Filled(1, 7));
}

TEST_F(StatePush, ARepeatedPushCountsOnce) {
  After<float>(v1::DTYPE_F32, v1::AGGREGATION_SUM, {1}, {2});
  const auto again = Push(bob.Push(bob.SegmentsOf(0), 1, 0), Filled(1, 2));
  WEIR_ASSERT_OK(again.get());
  EXPECT_TRUE(again.get()->outcome().repeated());
  EXPECT_EQ(Weights(view, 0), Filled(1, 3));
}

TEST_F(StatePush, TheDepartedAreDroppedWithTheNextPush) {
  After<float>(v1::DTYPE_F32, v1::AGGREGATION_SUM, {1}, {2});
  WEIR_ASSERT_OK(server->ApplyView(view.RemoveMember(kAnn).NextGeneration().Make()));
  EXPECT_EQ(Weights(view, 0), Filled(1, 3));
  WEIR_ASSERT_OK(Push(bob.Push(bob.SegmentsOf(0), 2, 0), Filled(1, 5)).get());
  EXPECT_EQ(Weights(view, 0), Filled(1, 5));
}

TEST_F(StatePush, IsAppliedOnArrivalInSyncToo) {
  view.Sync().AddVariable("state", 20, 0).AddVariable("w", 20).AddMember(kAnn).AddMember(kBob);
  StartJob(view);
  const auto answer = PushPull(ann.Push(ann.SegmentsOf(0), 1, 0), Filled(20, 4));
  EXPECT_EQ(ValuesOf<float>(answer.get()->payload), Filled(20, 4));
}

TEST_F(StatePush, AMinimumMayBeInfinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(After<float>(v1::DTYPE_F32, v1::AGGREGATION_MIN, {infinity}, {infinity}),
            std::vector<float>{infinity});
}

TEST_F(StatePush, AMeanOfIntegersIsRefusedWithAnAdvice) {
  view.AddVariable("count", 1, 0, v1::DTYPE_I64, v1::AGGREGATION_MEAN).AddMember(kAnn);
  MakeServer();
  EXPECT_THAT(server->ApplyView(view.Make()),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("use MAX")));
}

}  // namespace
}  // namespace weir
