// SPDX-License-Identifier: Apache-2.0
#include "rpc/collective_text.h"

#include <gtest/gtest.h>

#include "rpc/errors.h"

namespace weir {
namespace {

v1::Collective Make(v1::ReduceOp op, v1::DType dtype, const std::vector<uint64_t>& shape) {
  v1::Collective collective;
  collective.set_name("loss");
  collective.set_op(op);
  collective.set_dtype(dtype);
  collective.mutable_shape()->Add(shape.begin(), shape.end());
  collective.set_replicas(1);
  return collective;
}

TEST(CollectiveText, SaysWhatAUserHasCalled) {
  EXPECT_EQ(TextOf(Make(v1::REDUCE_OP_SUM, v1::DTYPE_F32, {3, 4})),
            "AllReduce(SUM) \"loss\" f32[3,4]");
  EXPECT_EQ(TextOf(Make(v1::REDUCE_OP_GATHER, v1::DTYPE_I64, {})), "AllGather \"loss\" i64[]");
  v1::Collective broadcast = Make(v1::REDUCE_OP_BROADCAST, v1::DTYPE_BOOL, {1});
  broadcast.set_source(5);
  broadcast.set_replicas(4);
  EXPECT_EQ(TextOf(broadcast), "Broadcast(from replica 5) \"loss\" bool[1] of 4 replicas");
  EXPECT_EQ(PlaceText(17, 2), "collective 2 of step 17");
}

TEST(CollectiveText, OfTheFutureIsSaidToo) {
  const v1::Collective unknown =
      Make(static_cast<v1::ReduceOp>(99), static_cast<v1::DType>(99), {1});
  EXPECT_EQ(TextOf(unknown), "AllReduce() \"loss\" [1]");
}

TEST(MemberLeft, IsToldFromOtherAbortions) {
  const absl::Status left = MemberLeft("rank 2 has left within step 7");
  EXPECT_TRUE(IsMemberLeft(left));
  EXPECT_EQ(left.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(left.message(),
            "[member-left] rank 2 has left within step 7; repeat the step without it");
  EXPECT_FALSE(IsMemberLeft(StaleAttempt(1, 2)));
  EXPECT_FALSE(IsMemberLeft(absl::UnavailableError(left.message())));
}

}  // namespace
}  // namespace weir
