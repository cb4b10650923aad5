// SPDX-License-Identifier: Apache-2.0
// What every ParameterClient promises of collectives: over an object in this process, over one and
// three server objects, and over gRPC; alone and with other members.
#include <gmock/gmock.h>

#include <limits>
#include <thread>
#include <vector>

#include "tests/integration/collective_calls.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A job's only worker.
class LoneCollective : public ::testing::TestWithParam<ClientKind> {
 protected:
  void SetUp() override {
    if (GetParam() != ClientKind::kEmbedded) {
      job_ = StartJob(GetParam(), 1);
      return;
    }
    WEIR_ASSERT_OK_AND_ASSIGN(local_, OpenEmbedded({}, SgdOver({4})));
    WEIR_ASSERT_OK(local_.parameters->Assign(PushItems({{0, 0, 0, 0}})));
    WEIR_ASSERT_OK(local_.session->ReportInitialised());
  }
  ParameterClient& client() { return job_ != nullptr ? job_->client(0) : *local_.parameters; }

  Job local_;
  std::unique_ptr<HandMadeJob> job_;
};

TEST_P(LoneCollective, IsWhatTheWorkerGave) {
  uint32_t ordinal = 0;
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin, ReduceOp::kMax,
                            ReduceOp::kFirst, ReduceOp::kGather, ReduceOp::kBroadcast}) {
    ReduceOptions options = Of(op, {3}, ordinal++);
    options.weight = 5;
    ReduceStats stats;
    WEIR_ASSERT_OK_AND_ASSIGN(const std::vector<float> got,
                              Reduce<float>(client(), {1, 2, 3}, options, &stats));
    EXPECT_THAT(got, ElementsAre(1, 2, 3));
    EXPECT_EQ(stats.members, 1u);
    EXPECT_EQ(stats.weight, 5);
  }
}

TEST_P(LoneCollective, EveryDtypeKeepsItsBits) {
  const std::vector<double> f64 = {1.0 + 1e-15};
  EXPECT_EQ(*Reduce<double>(client(), f64, Of(ReduceOp::kMean, {1}, 0)), f64);
  const std::vector<int32_t> i32 = {(1 << 24) + 1, -1};
  EXPECT_EQ(*Reduce<int32_t>(client(), i32, Of(ReduceOp::kSum, {2}, 1)), i32);
  const std::vector<int64_t> i64 = {(int64_t{1} << 53) + 1, std::numeric_limits<int64_t>::min()};
  EXPECT_EQ(*Reduce<int64_t>(client(), i64, Of(ReduceOp::kMax, {2}, 2)), i64);
  const std::vector<uint8_t> flags = {1, 0, 1};
  EXPECT_EQ(*Reduce<uint8_t>(client(), flags, Of(ReduceOp::kSum, {3}, 3)), flags);
}

TEST_P(LoneCollective, ScalarsAndNoElementsAreOrdinary) {
  EXPECT_THAT(*Reduce<float>(client(), {7}, Of(ReduceOp::kSum, {})), ElementsAre(7));
  EXPECT_THAT(*Reduce<float>(client(), {}, Of(ReduceOp::kSum, {0, 3}, 1)), IsEmpty());
  EXPECT_THAT(*Reduce<float>(client(), {}, Of(ReduceOp::kGather, {0}, 2)), IsEmpty());
}

TEST_P(LoneCollective, WhatIsWrongIsNamed) {
  EXPECT_THAT(
      Reduce<int64_t>(client(), {1}, Of(ReduceOp::kMean, {1})),
      HasStatus(absl::StatusCode::kInvalidArgument,
                AllOf(HasSubstr("AllReduce(MEAN) \"x\" i64[1]"), HasSubstr("take the sum"))));
  EXPECT_THAT(Reduce<float>(client(), {1, 2}, Of(ReduceOp::kSum, {3})),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("8 bytes were given")));
  ReduceOptions options = Of(ReduceOp::kMean, {1});
  options.weight = -1;
  EXPECT_THAT(Reduce<float>(client(), {1}, options),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("weight is -1")));
  options = Of(ReduceOp::kSum, {1});
  options.replicas = 0;
  EXPECT_THAT(Reduce<float>(client(), {1}, options),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("replicas is 0")));
  EXPECT_THAT(Reduce<float>(client(), {1}, Of(ReduceOp::kSum, {1}, 3)),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("before collective 0")));
  WEIR_EXPECT_OK(Reduce<float>(client(), {1}, Of(ReduceOp::kSum, {1})));
}

TEST_P(LoneCollective, OfElevenMegabytesIsRightInEveryElement) {
  constexpr size_t kElements = 3'000'001;  // many pieces, more than the credit of a server
  std::vector<float> values(kElements);
  for (size_t i = 0; i < kElements; ++i) values[i] = static_cast<float>(i);
  EXPECT_EQ(*Reduce<float>(client(), values, Of(ReduceOp::kSum, {kElements})), values);
}

INSTANTIATE_TEST_SUITE_P(EveryClient, LoneCollective, EveryClient(), NameOfKind);

TEST_P(SharedCollective, EveryOperationGivesAllTheSame) {
  Start();
  OnAll([](uint32_t rank, ParameterClient& client) {
    const std::vector<float> mine = {static_cast<float>(rank), 10};
    ReduceStats stats;
    EXPECT_THAT(*Reduce<float>(client, mine, Of(ReduceOp::kSum, {2}, 0), &stats),
                ElementsAre(3, 30));
    EXPECT_EQ(stats.members, 3u);
    EXPECT_THAT(*Reduce<float>(client, mine, Of(ReduceOp::kMin, {2}, 1)), ElementsAre(0, 10));
    EXPECT_THAT(*Reduce<float>(client, mine, Of(ReduceOp::kMax, {2}, 2)), ElementsAre(2, 10));
    EXPECT_THAT(*Reduce<float>(client, mine, Of(ReduceOp::kFirst, {2}, 3)), ElementsAre(0, 10));
    EXPECT_THAT(*Reduce<float>(client, mine, Of(ReduceOp::kGather, {2}, 4)),
                ElementsAre(0, 10, 1, 10, 2, 10));
    ReduceOptions broadcast = Of(ReduceOp::kBroadcast, {2}, 5);
    broadcast.source = 2;
    const std::vector<float> nothing;
    EXPECT_THAT(*Reduce<float>(client, rank == 2 ? mine : nothing, broadcast), ElementsAre(2, 10));
    EXPECT_THAT(*Reduce<float>(client, {}, Of(ReduceOp::kSum, {0}, 6)), IsEmpty());
    EXPECT_THAT(*Reduce<float>(client, {1}, Of(ReduceOp::kSum, {}, 7)), ElementsAre(3));
  });
}

// (3 * 1 + 5 * 2 + 0) / 8 = 1.625
TEST_P(SharedCollective, AMeanHasWeights) {
  Start();
  OnAll([](uint32_t rank, ParameterClient& client) {
    ReduceOptions mean = Of(ReduceOp::kMean, {1});
    mean.weight = rank == 0 ? 3 : rank == 1 ? 5 : 0;
    ReduceStats stats;
    EXPECT_THAT(*Reduce<double>(client, {rank + 1.0}, mean, &stats), ElementsAre(1.625));
    EXPECT_EQ(stats.weight, 8);
  });
}

// 12 MB a worker: pieces over all servers, many times the credit, larger than any message.
TEST_P(SharedCollective, LargeOnesAreRightInEveryElement) {
  Start();
  OnAll([](uint32_t rank, ParameterClient& client) {
    constexpr size_t kElements = 3'000'001;
    std::vector<float> values(kElements);
    for (size_t i = 0; i < kElements; ++i) values[i] = static_cast<float>((i + rank) % 1000);
    const auto sum = Reduce<float>(client, values, Of(ReduceOp::kSum, {kElements}, 0));
    WEIR_ASSERT_OK(sum);
    ASSERT_EQ(sum->size(), kElements);
    for (size_t i = 0; i < kElements; ++i) {
      ASSERT_EQ((*sum)[i], static_cast<float>(i % 1000 + (i + 1) % 1000 + (i + 2) % 1000)) << i;
    }
    ReduceOptions broadcast = Of(ReduceOp::kBroadcast, {kElements}, 1);
    broadcast.source = 1;
    const auto second = Reduce<float>(client, values, broadcast);
    WEIR_ASSERT_OK(second);
    for (size_t i = 0; i < kElements; ++i) {
      ASSERT_EQ((*second)[i], static_cast<float>((i + 1) % 1000)) << i;
    }
  });
}

// Replica r of 6 has the values r * 1000003 + i.
TEST_P(SharedCollective, LargeGathersAreInTheOrderOfReplicaIds) {
  Start();
  OnAll([](uint32_t rank, ParameterClient& client) {
    constexpr int64_t kElements = 100'003;
    constexpr int64_t kReplicas = 2;
    const auto value = [](int64_t replica, int64_t i) { return replica * 1'000'003 + i; };
    std::vector<int64_t> mine;
    for (int64_t r = 0; r < kReplicas; ++r) {
      for (int64_t i = 0; i < kElements; ++i) mine.push_back(value(rank * kReplicas + r, i));
    }
    ReduceOptions gather = Of(ReduceOp::kGather, {kElements});
    gather.replicas = kReplicas;
    const auto all = Reduce<int64_t>(client, mine, gather);
    WEIR_ASSERT_OK(all);
    ASSERT_EQ(all->size(), kWorkers * kReplicas * kElements);
    for (int64_t r = 0; r < static_cast<int64_t>(kWorkers) * kReplicas; ++r) {
      for (int64_t i = 0; i < kElements; ++i) {
        ASSERT_EQ((*all)[r * kElements + i], value(r, i)) << r << " " << i;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(EveryClient, SharedCollective, EveryServedClient(), NameOfKind);

// A network that loses, doubles and delays: every collective is still right, and counted once.
TEST(CollectiveOverABadNetwork, IsRightWhateverGetsLost) {
  HandMadeJob::Options options;
  options.declaration = SgdOver({4});
  options.regime = v1::REGIME_SYNC;
  options.workers = 3;
  options.servers = 3;
  options.network = {.lose_request = 0.1, .lose_answer = 0.1, .duplicate = 0.2, .delay = 0.3};
  HandMadeJob job(options);
  WEIR_ASSERT_OK(job.client(0).Assign(PushItems({{0, 0, 0, 0}})));
  job.Run();
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&job, rank] {
      for (uint64_t step = 0; step < 30; ++step) {
        for (uint32_t ordinal = 0; ordinal < 3; ++ordinal) {
          // Now and then in several pieces.
          const size_t elements = (step + ordinal) % 5 == 0 ? 400'000 : 3;
          ReduceOptions sum = Of(ReduceOp::kSum, {elements}, ordinal);
          sum.step = step;
          const auto got = Reduce<float>(
              job.client(rank), std::vector<float>(elements, static_cast<float>(rank * 100 + step)),
              sum);
          WEIR_ASSERT_OK(got);
          ASSERT_THAT(*got, Each(static_cast<float>(300 + 3 * step)));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace weir
