// SPDX-License-Identifier: Apache-2.0
// What a collective's result is, by operation and dtype.
#include <limits>

#include "tests/unit/server/collective_fixture.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::IsEmpty;

using CollectiveResult = CollectiveFixture;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST_F(CollectiveResult, NobodyIsAnsweredBeforeTheLastMemberHasCome) {
  const auto ann = Reduce<float>(kAnn, {1, 2});
  const auto cid = Reduce<float>(kCid, {10, 20});
  EXPECT_FALSE(ann.has_come());
  EXPECT_FALSE(cid.has_come());
  const auto bob = Reduce<float>(kBob, {100, 200});
  for (const auto& answer : {ann, bob, cid}) {
    EXPECT_THAT(Got(answer), ElementsAre(111, 222));
    EXPECT_EQ(answer.get()->header.members(), 3u);
    EXPECT_EQ(answer.get()->header.generation(), 1u);
  }
}

// In f32 (1e8 + 1) - 1e8 is 0, and (1e8 - 1e8) + 1 is 1.
TEST_F(CollectiveResult, ASumIsMadeInTheOrderOfRanksWhateverComesFirst) {
  Reduce<float>(kCid, {-1e8f});
  Reduce<float>(kBob, {1});
  EXPECT_THAT(Got(Reduce<float>(kAnn, {1e8f})), ElementsAre(0));
  Reduce<float>(kBob, {1}, {.ordinal = 1});
  Reduce<float>(kAnn, {1e8f}, {.ordinal = 1});
  EXPECT_THAT(Got(Reduce<float>(kCid, {-1e8f}, {.ordinal = 1})), ElementsAre(0));
}

// (3 * 1 + 5 * 2) / 8
TEST_F(CollectiveResult, AMeanOfWeights3And5IsThatOfTheJoinedBatch) {
  StartSync({kAnn, kBob});
  Reduce<double>(kAnn, {1}, {.op = v1::REDUCE_OP_MEAN, .weight = 3});
  const auto bob = Reduce<double>(kBob, {2}, {.op = v1::REDUCE_OP_MEAN, .weight = 5});
  EXPECT_THAT(Got<double>(bob), ElementsAre(1.625));
  EXPECT_EQ(bob.get()->header.weight(), 8);
}

TEST_F(CollectiveResult, WhatWeighsNothingIsNotInTheMean) {
  const Call mean{.op = v1::REDUCE_OP_MEAN};
  Reduce<float>(kAnn, {kNaN}, {.op = v1::REDUCE_OP_MEAN, .weight = 0});
  Reduce<float>(kBob, {2}, mean);
  EXPECT_THAT(Got(Reduce<float>(kCid, {4}, mean)), ElementsAre(3));
}

TEST_F(CollectiveResult, AllWeightsZeroCountEqually) {
  const Call mean{.op = v1::REDUCE_OP_MEAN, .weight = 0};
  Reduce<float>(kAnn, {1}, mean);
  Reduce<float>(kBob, {2}, mean);
  EXPECT_NEAR(Got(Reduce<float>(kCid, {6}, mean)).at(0), 3, 1e-6);
}

TEST_F(CollectiveResult, MinAndMaxAreElementwise) {
  const Call min{.op = v1::REDUCE_OP_MIN};
  Reduce<int32_t>(kAnn, {1, -2, 3}, min);
  Reduce<int32_t>(kBob, {0, 5, 3}, min);
  EXPECT_THAT(Got<int32_t>(Reduce<int32_t>(kCid, {2, 2, 2}, min)), ElementsAre(0, -2, 2));
  const Call max{.op = v1::REDUCE_OP_MAX, .ordinal = 1};
  Reduce<int64_t>(kAnn, {int64_t{1} << 60, 0}, max);
  Reduce<int64_t>(kBob, {0, -1}, max);
  EXPECT_THAT(Got<int64_t>(Reduce<int64_t>(kCid, {2, -2}, max)), ElementsAre(int64_t{1} << 60, 0));
}

TEST_F(CollectiveResult, MinAndMaxOfNaNAreNaNWhoeverHasIt) {
  uint32_t ordinal = 0;
  for (const v1::ReduceOp op : {v1::REDUCE_OP_MIN, v1::REDUCE_OP_MAX}) {
    const Call call{.op = op, .ordinal = ordinal++};
    Reduce<float>(kAnn, {kNaN, 1, 1}, call);
    Reduce<float>(kBob, {1, kNaN, 1}, call);
    const std::vector<float> got = Got(Reduce<float>(kCid, {1, 1, kNaN}, call));
    for (const float value : got) EXPECT_TRUE(std::isnan(value));
  }
}

TEST_F(CollectiveResult, IntegersWrapAroundAndKeepTheirBits) {
  Reduce<int64_t>(kAnn, {std::numeric_limits<int64_t>::max(), (int64_t{1} << 53) + 1});
  Reduce<int64_t>(kBob, {1, 0});
  EXPECT_THAT(Got<int64_t>(Reduce<int64_t>(kCid, {0, 0})),
              ElementsAre(std::numeric_limits<int64_t>::min(), (int64_t{1} << 53) + 1));
}

TEST_F(CollectiveResult, TruthsAreSummedToWhetherThereIsATrueOne) {
  Reduce<uint8_t>(kAnn, {1, 0, 1});
  Reduce<uint8_t>(kBob, {1, 0, 0});
  EXPECT_THAT(Got<uint8_t>(Reduce<uint8_t>(kCid, {1, 0, 0})), ElementsAre(1, 0, 1));
}

TEST_F(CollectiveResult, AMeanOfIntegersOrTruthsIsRefused) {
  const Call mean{.op = v1::REDUCE_OP_MEAN, .name = "hits"};
  for (const auto& answer : {Reduce<int32_t>(kAnn, {1}, mean), Reduce<int64_t>(kAnn, {1}, mean),
                             Reduce<uint8_t>(kAnn, {1}, mean)}) {
    EXPECT_THAT(answer.get(),
                HasStatus(absl::StatusCode::kInvalidArgument,
                          AllOf(HasSubstr("AllReduce(MEAN) \"hits\""), HasSubstr("take the SUM"))));
  }
}

TEST_F(CollectiveResult, FirstIsOfTheLowestRankThatIsThere) {
  Reduce<float>(kCid, {3}, {.op = v1::REDUCE_OP_FIRST});
  Reduce<float>(kBob, {2}, {.op = v1::REDUCE_OP_FIRST});
  EXPECT_THAT(Got(Reduce<float>(kAnn, {1}, {.op = v1::REDUCE_OP_FIRST})), ElementsAre(1));
  Remove(kAnn);
  Reduce<float>(kCid, {3}, {.op = v1::REDUCE_OP_FIRST, .step = 1});
  EXPECT_THAT(Got(Reduce<float>(kBob, {2}, {.op = v1::REDUCE_OP_FIRST, .step = 1})),
              ElementsAre(2));
}

TEST_F(CollectiveResult, AGatherHasAllReplicasInTheOrderOfIds) {
  const Call gather{.op = v1::REDUCE_OP_GATHER, .replicas = 2};
  Reduce<float>(kCid, {5, 50, 6, 60}, gather);
  Reduce<float>(kBob, {3, 30, 4, 40}, gather);
  EXPECT_THAT(Got(Reduce<float>(kAnn, {1, 10, 2, 20}, gather)),
              ElementsAre(1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 6, 60));
}

TEST_F(CollectiveResult, ABroadcastIsOfItsSourceAndTheOthersSendNothing) {
  const Call from_3{.op = v1::REDUCE_OP_BROADCAST, .replicas = 2, .source = 3, .shape = {2}};
  const auto listen = [&](uint64_t worker) {
    v1::ReduceRequest request = Request<float>(worker, {}, from_3);
    request.set_count(2);
    return Send<float>(request, {});
  };
  const auto ann = listen(kAnn);
  const auto bob = Reduce<float>(kBob, {7, 8}, from_3);
  listen(kCid);
  EXPECT_THAT(Got(ann), ElementsAre(7, 8));
  EXPECT_THAT(Got(bob), ElementsAre(7, 8));
}

TEST_F(CollectiveResult, ABroadcastFromAReplicaThatIsNotThereFailsOnAll) {
  const Call from_9{.op = v1::REDUCE_OP_BROADCAST, .source = 9, .shape = {1}};
  const auto listen = [&](uint64_t worker) {
    v1::ReduceRequest request = Request<float>(worker, {}, from_9);
    request.set_count(1);
    return Send<float>(request, {});
  };
  for (const auto& answer : {listen(kAnn), listen(kBob), listen(kCid)}) {
    EXPECT_THAT(answer.get(), HasStatus(absl::StatusCode::kInvalidArgument,
                                        AllOf(HasSubstr("replica 9"), HasSubstr("rank 0"))));
  }
}

TEST_F(CollectiveResult, NoElementsAreOrdinary) {
  Reduce<float>(kAnn, {}, {.shape = {3, 0}});
  Reduce<float>(kBob, {}, {.shape = {3, 0}});
  EXPECT_THAT(Got(Reduce<float>(kCid, {}, {.shape = {3, 0}})), IsEmpty());
}

TEST_F(CollectiveResult, PiecesAreCombinedEachByItself) {
  const Call second{.shape = {4}, .piece = 1, .first = 1};
  for (const uint64_t worker : {kAnn, kBob, kCid}) {
    v1::ReduceRequest request = Request<float>(worker, {1}, {.shape = {4}});
    Send<float>(request, {1});
  }
  Reduce<float>(kAnn, {1, 2, 3}, second);
  Reduce<float>(kBob, {10, 20, 30}, second);
  EXPECT_THAT(Got(Reduce<float>(kCid, {100, 200, 300}, second)), ElementsAre(111, 222, 333));
}

// A payload of 1 MiB: of f64 131072; of 3 members with 2 replicas each 131072 / 6.
TEST_F(CollectiveResult, TheAnswerSaysHowMuchLaterPiecesShallCarry) {
  const auto last = [&](const Call& call) {
    const std::vector<double> values(call.replicas, 0.0);
    Reduce<double>(kAnn, values, call);
    Reduce<double>(kBob, values, call);
    return Reduce<double>(kCid, values, call).get()->header.piece_elements();
  };
  EXPECT_EQ(last({}), 131072u);
  EXPECT_EQ(last({.op = v1::REDUCE_OP_GATHER, .ordinal = 1, .replicas = 2}), 21845u);
}

TEST_F(CollectiveResult, AJobOfOneWorkerMeetsItselfInEveryRegime) {
  StartSync({kAnn});
  EXPECT_THAT(Got(Reduce<float>(kAnn, {5}, {.op = v1::REDUCE_OP_MEAN, .weight = 3})),
              ElementsAre(5));
  view = ViewMaker();
  view.AddVariable("w", 4).AddMember(kAnn);
  MakeServer();
  StartJob(view);
  EXPECT_THAT(Got(Reduce<float>(kAnn, {5})), ElementsAre(5));
}

TEST_F(CollectiveResult, WorkersWithoutStepsInCommonAreRefused) {
  view = ViewMaker();
  view.AddVariable("w", 4).AddMember(kAnn).AddMember(kBob);
  MakeServer();
  StartJob(view);
  EXPECT_THAT(Reduce<float>(kAnn, {5}).get(),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("regime: sync")));
}

}  // namespace
}  // namespace weir
