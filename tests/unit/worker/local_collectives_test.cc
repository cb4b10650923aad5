// SPDX-License-Identifier: Apache-2.0
#include "worker/local_collectives.h"

#include <gmock/gmock.h>

#include <cstring>
#include <functional>
#include <limits>
#include <thread>

#include "tests/support/status_matchers.h"
#include "worker/reduction.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

CollectiveCall Call(ReduceOp op, const std::string& name, uint64_t elements, double weight = 1) {
  CollectiveCall call;
  call.op = op;
  call.name = name;
  call.shape = {elements};
  call.weight = weight;
  return call;
}

struct Reduced {
  absl::Status status;
  std::vector<float> values;
};

Reduced Reduce(Collectives& collectives, const CollectiveCall& call,
               const std::vector<float>& values) {
  Reduced reduced;
  std::vector<std::byte> result;
  reduced.status = collectives.Run(
      call, absl::MakeConstSpan(reinterpret_cast<const std::byte*>(values.data()), call.bytes()),
      result);
  reduced.values.resize(result.size() / sizeof(float));
  if (!result.empty()) std::memcpy(reduced.values.data(), result.data(), result.size());
  return reduced;
}

// Doubles what it is given, and writes down how it was called.
class Twice final : public ProcessCollectives {
 public:
  absl::StatusOr<std::vector<Present>> CallRoll(const CollectivePlace& place,
                                                bool newcomer) override {
    newcomers.push_back(newcomer);
    EXPECT_EQ(place.step, 17u);
    ordinals.push_back(place.ordinal);
    if (!status.ok()) return status;
    return all;
  }
  absl::Status Run(const CollectiveCall& call, const CollectivePlace& place,
                   absl::Span<const std::byte> data, std::vector<std::byte>& result) override {
    EXPECT_EQ(place.step, 17u);
    weights.push_back(call.weight);
    sources.push_back(call.source);
    ordinals.push_back(place.ordinal);
    result.assign(data.begin(), data.end());
    result.insert(result.end(), data.begin(), data.end());
    return status;
  }
  std::vector<Present> all = {{0, false}, {2, false}};
  std::vector<bool> newcomers;
  std::vector<double> weights;
  std::vector<uint32_t> sources;
  std::vector<uint32_t> ordinals;
  absl::Status status;
};

// Three replicas on three threads, ids 6, 7 and 8.
class LocalCollectivesTest : public testing::Test {
 protected:
  static constexpr uint32_t kReplicas = 3;

  explicit LocalCollectivesTest(absl::Duration timeout = absl::Minutes(1))
      : meeting_({kReplicas, timeout, false, {}, {}}) {}

  // Runs a step of every replica; its status is that of the step.
  absl::Status Step(const std::function<absl::Status(uint32_t, Collectives&)>& replica) {
    meeting_.Begin(17, 6);
    if (before_the_step_) {
      collectives_.BeginBefore({17, attempt_, 6, 0, kReplicas, newcomer_, others_});
    } else {
      collectives_.BeginStep({17, attempt_, 6, first_index_, in_sync_, newcomer_, others_});
    }
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < kReplicas; ++i) {
      threads.emplace_back([&, i] {
        meeting_.Start(i);
        meeting_.End(i, replica(i, collectives_.of(i)));
      });
    }
    for (std::thread& thread : threads) thread.join();
    return meeting_.failure();
  }

  // One collective, each replica's values the same plus 10 times its number.
  std::vector<Reduced> RunOnAll(ReduceOp op, const std::vector<float>& values,
                                const std::vector<double>& weights = {1, 1, 1},
                                uint32_t source = 0) {
    std::vector<Reduced> reduced(kReplicas);
    failure_ = Step([&](uint32_t i, Collectives& collectives) {
      std::vector<float> mine = values;
      for (float& value : mine) value += 10 * static_cast<float>(i);
      CollectiveCall call = Call(op, "x", mine.size(), weights[i]);
      call.source = source;
      reduced[i] = Reduce(collectives, call, mine);
      return reduced[i].status;
    });
    return reduced;
  }

  ReplicaMeeting meeting_;
  LocalCollectives collectives_{meeting_};
  bool newcomer_ = false;
  ProcessCollectives* others_ = nullptr;
  bool before_the_step_ = false;
  uint32_t in_sync_ = kReplicas;
  uint32_t first_index_ = 0;
  uint64_t attempt_ = 1;
  absl::Status failure_;
};

MATCHER_P(HasValues, values, "") {
  return testing::ExplainMatchResult(testing::ElementsAreArray(values), arg.values,
                                     result_listener);
}

TEST_F(LocalCollectivesTest, EveryReplicaGetsTheReductionOfAll) {
  using Values = std::vector<float>;
  EXPECT_THAT(RunOnAll(ReduceOp::kSum, {1, 2}), Each(HasValues(Values{33, 36})));
  EXPECT_THAT(RunOnAll(ReduceOp::kMean, {1, 2}), Each(HasValues(Values{11, 12})));
  EXPECT_THAT(RunOnAll(ReduceOp::kMin, {1, 2}), Each(HasValues(Values{1, 2})));
  EXPECT_THAT(RunOnAll(ReduceOp::kMax, {1, 2}), Each(HasValues(Values{21, 22})));
  EXPECT_THAT(RunOnAll(ReduceOp::kFirst, {1, 2}), Each(HasValues(Values{1, 2})));
}

// Weights 3, 5 and 0: (3 * 1 + 5 * 11) / 8.
TEST_F(LocalCollectivesTest, AMeanIsWeightedAndWhatHasNoWeightIsNotLookedAt) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(RunOnAll(ReduceOp::kMean, {1}, {3, 5, 0}), Each(HasValues(std::vector<float>{7.25})));
  std::vector<float> result(1);
  const float one = 1;
  Combine(ReduceOp::kMean, DType::kFloat32, 1, {{&one, 2}, {&nan, 0}}, result.data());
  EXPECT_EQ(result[0], 1);
}

TEST_F(LocalCollectivesTest, AGatherHasTheBlocksInTheOrderOfIds) {
  EXPECT_THAT(RunOnAll(ReduceOp::kGather, {1, 2}),
              Each(HasValues(std::vector<float>{1, 2, 11, 12, 21, 22})));
}

TEST_F(LocalCollectivesTest, ABroadcastComesFromTheReplicaThatIsNamed) {
  EXPECT_THAT(RunOnAll(ReduceOp::kBroadcast, {1}, {1, 1, 1}, 1),
              Each(HasValues(std::vector<float>{11})));
  RunOnAll(ReduceOp::kBroadcast, {1}, {1, 1, 1}, 3);
  EXPECT_THAT(failure_, HasStatus(absl::StatusCode::kInvalidArgument,
                                  "Broadcast(3) \"x\" f32[1]: the replicas in sync are 0 to 2"));
}

TEST_F(LocalCollectivesTest, OneOfThemSpeaksToTheOtherProcessesForAll) {
  Twice twice;
  others_ = &twice;
  const absl::Status status = Step([&](uint32_t i, Collectives& collectives) {
    EXPECT_THAT(Reduce(collectives, Call(ReduceOp::kSum, "a", 1, i), {1}),
                HasValues(std::vector<float>{3, 3}));
    EXPECT_THAT(Reduce(collectives, Call(ReduceOp::kGather, "b", 1), {static_cast<float>(i)}),
                HasValues(std::vector<float>{0, 1, 2, 0, 1, 2}));
    return absl::OkStatus();
  });
  WEIR_EXPECT_OK(status);
  EXPECT_THAT(twice.ordinals, ElementsAre(0, 1, 2));
  EXPECT_EQ(twice.weights[0], 0 + 1 + 2);
  twice.status = absl::AbortedError("a worker left");
  RunOnAll(ReduceOp::kSum, {1});
  EXPECT_EQ(failure_, twice.status);
}

// Rank 2 of three replicas. The view has ranks 0, 1 and 2; of these 1 is gone when the step begins.
TEST_F(LocalCollectivesTest, WhoIsInSyncIsWhoHasCome) {
  Twice twice;
  others_ = &twice;
  in_sync_ = 9;
  first_index_ = 6;
  const absl::Status status = Step([&](uint32_t i, Collectives& collectives) {
    EXPECT_EQ(collectives.num_replicas_in_sync(), 9u);
    WEIR_EXPECT_OK(collectives.Assemble());
    EXPECT_EQ(collectives.num_replicas_in_sync(), 6u);
    EXPECT_EQ(collectives.index(), 3 + i);
    return Reduce(collectives, Call(ReduceOp::kSum, "a", 1), {1}).status;
  });
  WEIR_EXPECT_OK(status);
  EXPECT_THAT(twice.ordinals, ElementsAre(0, 1));
}

// The processes in sync are of ranks 0 and 2, so replica 5 of those in sync has the id 8.
TEST_F(LocalCollectivesTest, WhatABroadcastFromElsewhereBringsIsNothing) {
  Twice twice;
  others_ = &twice;
  EXPECT_THAT(RunOnAll(ReduceOp::kBroadcast, {1}, {1, 1, 1}, 2),
              Each(HasValues(std::vector<float>{})));
  EXPECT_THAT(RunOnAll(ReduceOp::kBroadcast, {1}, {1, 1, 1}, 5),
              Each(HasValues(std::vector<float>{21, 21})));
  EXPECT_THAT(twice.sources, ElementsAre(2, 8));
  RunOnAll(ReduceOp::kBroadcast, {1}, {1, 1, 1}, 6);
  EXPECT_THAT(failure_, HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("0 to 5")));
}

TEST_F(LocalCollectivesTest, AStepCountsOnFromTheCollectivesBeforeItAndBeginsAnewWhenItIsRepeated) {
  Twice twice;
  others_ = &twice;
  before_the_step_ = true;
  RunOnAll(ReduceOp::kSum, {1});
  RunOnAll(ReduceOp::kSum, {1});
  before_the_step_ = false;
  RunOnAll(ReduceOp::kSum, {1});
  RunOnAll(ReduceOp::kSum, {1});
  EXPECT_THAT(twice.ordinals, ElementsAre(0, 1, 2, 3, 0, 1));

  // The job goes back to a checkpoint, when some have been called before the same step.
  before_the_step_ = true;
  RunOnAll(ReduceOp::kSum, {1});
  attempt_ = 2;
  twice.ordinals.clear();
  RunOnAll(ReduceOp::kSum, {1});
  EXPECT_THAT(twice.ordinals, ElementsAre(0, 1));
}

TEST_F(LocalCollectivesTest, ManyInARowStayInStep) {
  const absl::Status status = Step([&](uint32_t, Collectives& collectives) {
    for (int k = 0; k < 500; ++k) {
      const Reduced reduced =
          Reduce(collectives, Call(ReduceOp::kSum, "x", 1), {static_cast<float>(k)});
      if (!reduced.status.ok()) return reduced.status;
      EXPECT_EQ(reduced.values[0], static_cast<float>(3 * k));
    }
    return absl::OkStatus();
  });
  WEIR_EXPECT_OK(status);
}

TEST_F(LocalCollectivesTest, AMismatchFailsAllAndNamesTwoReplicasAndTheirOperations) {
  std::vector<absl::Status> statuses(kReplicas);
  const absl::Status status = Step([&](uint32_t i, Collectives& collectives) {
    Reduce(collectives, Call(ReduceOp::kSum, "first", 1), {1});
    const auto call = i == 1 ? Call(ReduceOp::kGather, "hits", 1) : Call(ReduceOp::kSum, "loss", 3);
    statuses[i] = Reduce(collectives, call, {1, 2, 3}).status;
    return statuses[i];
  });
  EXPECT_THAT(status,
              HasStatus(absl::StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("replica 7"), HasSubstr("AllGather \"hits\" f32[1]"),
                              HasSubstr("AllReduce(SUM) \"loss\" f32[3]"),
                              HasSubstr("as meeting 1 of step 17"))));
  EXPECT_THAT(statuses, Each(status));
}

TEST_F(LocalCollectivesTest, AReplicaThatEndsItsStepReleasesTheOthersAndIsNamed) {
  const absl::Status status = Step([&](uint32_t i, Collectives& collectives) {
    if (i == 2) return absl::OkStatus();
    return Reduce(collectives, Call(ReduceOp::kSum, "loss", 1), {1}).status;
  });
  EXPECT_THAT(status, HasStatus(absl::StatusCode::kInvalidArgument,
                                AllOf(HasSubstr("replica 8 has ended its step, but replica "),
                                      HasSubstr("calls AllReduce(SUM) \"loss\" f32[1]"))));
}

TEST_F(LocalCollectivesTest, TheElderIsTheLowestReplicaOfThoseWhoAreNotNew) {
  Twice twice;
  others_ = &twice;
  newcomer_ = true;
  const auto elder = [&](const std::vector<Present>& all) {
    twice.all = all;
    std::vector<absl::optional<uint32_t>> elders(kReplicas);
    WEIR_EXPECT_OK(Step([&](uint32_t i, Collectives& collectives) {
      const absl::Status status = collectives.Assemble();
      elders[i] = collectives.elder();
      return status;
    }));
    EXPECT_THAT(elders, Each(elders[0]));
    return elders[0];
  };
  EXPECT_EQ(elder({{0, true}, {1, false}, {2, true}, {3, false}}), absl::optional<uint32_t>(3));
  EXPECT_EQ(elder({{1, true}, {2, false}}), absl::optional<uint32_t>(3)) << "by their places";
  EXPECT_EQ(elder({{0, true}, {2, true}}), absl::nullopt);
  EXPECT_EQ(elder({{0, false}, {2, false}}), absl::nullopt);
  EXPECT_THAT(twice.newcomers, ElementsAre(true, true, true, true));
}

TEST_F(LocalCollectivesTest, AReplicaThatFailsReleasesTheOthersWithItsError) {
  std::vector<absl::Status> statuses(kReplicas);
  const absl::Status status = Step([&](uint32_t i, Collectives& collectives) {
    statuses[i] = i == 0 ? absl::InternalError("no such layer")
                         : Reduce(collectives, Call(ReduceOp::kSum, "loss", 1), {1}).status;
    return statuses[i];
  });
  EXPECT_THAT(status, HasStatus(absl::StatusCode::kInternal, "replica 6: no such layer"));
  EXPECT_EQ(statuses[1], status);
  EXPECT_EQ(statuses[2], status);
  // The next step is a new one.
  EXPECT_THAT(RunOnAll(ReduceOp::kSum, {1}), Each(HasValues(std::vector<float>{33})));
}

TEST_F(LocalCollectivesTest, WhatAnOperationIsNotForIsRefused) {
  const absl::Status status = Step([&](uint32_t, Collectives& collectives) {
    CollectiveCall call = Call(ReduceOp::kMean, "hits", 1);
    call.dtype = DType::kInt32;
    return Reduce(collectives, call, {1}).status;
  });
  EXPECT_THAT(status, HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("MEAN is of")));
}

class ImpatientTest : public LocalCollectivesTest {
 protected:
  ImpatientTest() : LocalCollectivesTest(absl::Milliseconds(20)) {}
};

TEST_F(ImpatientTest, AWaitEndsWithTheNamesOfThoseWhoAreMissing) {
  const absl::Status status = Step([&](uint32_t i, Collectives& collectives) {
    // This one comes when the others have given up.
    while (i == 1 && meeting_.failure().ok()) std::this_thread::yield();
    return Reduce(collectives, Call(ReduceOp::kSum, "loss", 1), {1}).status;
  });
  EXPECT_THAT(
      status,
      HasStatus(absl::StatusCode::kDeadlineExceeded,
                AllOf(AnyOf(HasSubstr("replica 6 has waited"), HasSubstr("replica 8 has waited")),
                      HasSubstr("in AllReduce(SUM) \"loss\" f32[1]"), HasSubstr("replica 7"))));
}

}  // namespace
}  // namespace weir
