// SPDX-License-Identifier: Apache-2.0
// Collectives that do not fit together, or are none: who is told, and in which words.
#include "tests/unit/server/collective_fixture.h"

namespace weir {
namespace {

using ::testing::AllOf;

class CollectiveMismatch : public CollectiveFixture {
 protected:
  // What ann calls is AllReduce(SUM) "loss" f32[2] as collective 1 of step 7.
  template <typename T>
  void BobCalls(const std::vector<T>& values, const Call& call, const std::string& text) {
    const auto ann = Reduce<float>(kAnn, {1, 2}, {.step = 7, .ordinal = 1});
    const auto bob = Reduce<T>(kBob, values, call);
    const auto cid = Reduce<float>(kCid, {1, 2}, {.step = 7, .ordinal = 1});
    for (const auto& answer : {ann, bob, cid}) {
      EXPECT_THAT(answer.get(),
                  HasStatus(absl::StatusCode::kInvalidArgument,
                            AllOf(HasSubstr("rank 1 (worker 000000000000000b) calls " + text),
                                  HasSubstr("rank 0 (worker 000000000000000a) AllReduce(SUM) "
                                            "\"loss\" f32[2]"),
                                  HasSubstr("as collective 1 of step 7"))));
    }
  }
};

TEST_F(CollectiveMismatch, OfTheOperationIsNamedOnEveryMember) {
  BobCalls<float>({1, 2}, {.op = v1::REDUCE_OP_MAX, .step = 7, .ordinal = 1},
                  "AllReduce(MAX) \"loss\" f32[2],");
}
TEST_F(CollectiveMismatch, OfOperationNameDtypeAndShapeIsNamed) {
  BobCalls<int64_t>({1}, {.op = v1::REDUCE_OP_GATHER, .name = "hits", .step = 7, .ordinal = 1},
                    "AllGather \"hits\" i64[1],");
}
TEST_F(CollectiveMismatch, OfTheNameIsNamed) {
  BobCalls<float>({1, 2}, {.name = "accuracy", .step = 7, .ordinal = 1},
                  "AllReduce(SUM) \"accuracy\" f32[2],");
}
TEST_F(CollectiveMismatch, OfTheDtypeIsNamed) {
  BobCalls<int32_t>({1, 2}, {.step = 7, .ordinal = 1}, "AllReduce(SUM) \"loss\" i32[2],");
}
TEST_F(CollectiveMismatch, OfTheShapeIsNamed) {
  BobCalls<float>({1, 2}, {.step = 7, .ordinal = 1, .shape = {1, 2}},
                  "AllReduce(SUM) \"loss\" f32[1,2],");
}
TEST_F(CollectiveMismatch, OfTheReplicasIsNamed) {
  BobCalls<float>({1, 2}, {.step = 7, .ordinal = 1, .replicas = 2},
                  "AllReduce(SUM) \"loss\" f32[2] of 2 replicas,");
}
TEST_F(CollectiveMismatch, OfTheOrderIsNamed) {
  BobCalls<float>({1, 2}, {.step = 7, .ordinal = 2},
                  "AllReduce(SUM) \"loss\" f32[2] as collective 2 of step 7,");
}
TEST_F(CollectiveMismatch, OfTheStepIsNamed) {
  BobCalls<float>({1, 2}, {.step = 8, .ordinal = 0},
                  "AllReduce(SUM) \"loss\" f32[2] as collective 0 of step 8,");
}
TEST_F(CollectiveMismatch, OfTheSourceIsNamed) {
  const auto ann =
      Reduce<float>(kAnn, {1}, {.op = v1::REDUCE_OP_BROADCAST, .source = 0, .shape = {1}});
  const auto bob =
      Reduce<float>(kBob, {1}, {.op = v1::REDUCE_OP_BROADCAST, .source = 1, .shape = {1}});
  for (const auto& answer : {ann, bob}) {
    EXPECT_THAT(answer.get(), HasStatus(absl::StatusCode::kInvalidArgument,
                                        AllOf(HasSubstr("Broadcast(from replica 0)"),
                                              HasSubstr("Broadcast(from replica 1)"))));
  }
}

TEST_F(CollectiveMismatch, IsToldAgainToWhoeverLostTheAnswer) {
  const v1::ReduceRequest request = Request<float>(kAnn, {1}, {});
  Send<float>(request, {1});
  Reduce<float>(kBob, {1}, {.name = "other"});
  EXPECT_THAT(Send<float>(request, {1}).get(),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("\"other\"")));
}

TEST_F(CollectiveMismatch, IsOverWhenAllHaveBeenTold) {
  Reduce<float>(kAnn, {1});
  Reduce<float>(kBob, {1}, {.name = "other"});
  EXPECT_THAT(Reduce<float>(kCid, {1}).get(),
              HasStatus(absl::StatusCode::kInvalidArgument, ::testing::_));
  Reduce<float>(kAnn, {1}, {.step = 1});
  Reduce<float>(kBob, {2}, {.step = 1});
  EXPECT_THAT(Got(Reduce<float>(kCid, {3}, {.step = 1})), ElementsAre(6));
}

struct BadRequest {
  const char* name;
  void (*spoil)(v1::ReduceRequest& request);
  const char* says;
};

class CollectiveBadInput : public CollectiveFixture,
                           public ::testing::WithParamInterface<BadRequest> {};

TEST_P(CollectiveBadInput, IsRefusedAndLeavesNothing) {
  v1::ReduceRequest request = Request<float>(kAnn, {1, 2}, {});
  GetParam().spoil(request);
  EXPECT_THAT(Send<float>(request, {1, 2}).get(),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr(GetParam().says)));
  Reduce<float>(kAnn, {1, 2});
  Reduce<float>(kBob, {1, 2});
  EXPECT_THAT(Got(Reduce<float>(kCid, {1, 2})), ElementsAre(3, 6));
}

using Request = v1::ReduceRequest;
INSTANTIATE_TEST_SUITE_P(
    Each, CollectiveBadInput,
    ::testing::Values(
        BadRequest{"Reader", [](Request& r) { r.mutable_context()->set_worker(0); }, "reader"},
        BadRequest{"NoSequence", [](Request& r) { r.set_sequence(0); }, "sequence"},
        BadRequest{"NoOp",
                   [](Request& r) { r.mutable_collective()->set_op(v1::REDUCE_OP_UNSPECIFIED); },
                   "op 0"},
        BadRequest{
            "FutureOp",
            [](Request& r) { r.mutable_collective()->set_op(static_cast<v1::ReduceOp>(99)); },
            "op 99"},
        BadRequest{"NoDtype",
                   [](Request& r) { r.mutable_collective()->set_dtype(v1::DTYPE_UNSPECIFIED); },
                   "dtype"},
        BadRequest{"NoReplicas", [](Request& r) { r.mutable_collective()->set_replicas(0); },
                   "replicas is 0"},
        BadRequest{"NegativeWeight", [](Request& r) { r.set_weight(-1); }, "weight is -1"},
        BadRequest{"InfiniteWeight", [](Request& r) { r.set_weight(INFINITY); }, "weight is inf"},
        BadRequest{"LongName",
                   [](Request& r) { r.mutable_collective()->set_name(std::string(257, 'x')); },
                   "257 bytes"},
        BadRequest{"HugeShape",
                   [](Request& r) {
                     r.mutable_collective()->add_shape(UINT64_MAX);
                     r.mutable_collective()->add_shape(UINT64_MAX);
                   },
                   "too many elements"},
        BadRequest{"BeyondTheEnd", [](Request& r) { r.set_count(UINT64_MAX); }, "go beyond"},
        BadRequest{"NoElements", [](Request& r) { r.set_count(0); }, "count is 0"},
        BadRequest{"FirstPieceElsewhere",
                   [](Request& r) {
                     r.set_first_element(1);
                     r.set_count(1);
                   },
                   "piece 0"},
        BadRequest{"OtherPayload", [](Request& r) { r.set_count(1); }, "payload has 8 bytes; 4"},
        BadRequest{"HugePiece",
                   [](Request& r) {
                     r.mutable_collective()->set_shape(0, 1 << 30);
                     r.set_count(1 << 30);
                   },
                   "more pieces"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace weir
