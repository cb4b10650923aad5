// SPDX-License-Identifier: Apache-2.0
// What every ParameterClient promises of collectives: over an object in this process, over one and
// three server objects, and over gRPC; alone and with other members.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "tests/support/call_and_wait.h"
#include "tests/support/client_kind.h"
#include "tests/support/client_values.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <typename T>
DType DTypeOf() {
  if (std::is_same_v<T, float>) return DType::kFloat32;
  if (std::is_same_v<T, double>) return DType::kFloat64;
  if (std::is_same_v<T, int32_t>) return DType::kInt32;
  if (std::is_same_v<T, int64_t>) return DType::kInt64;
  return DType::kBool;
}

// The values as bytes; the shape is one extent where options has none and they are not one value.
template <typename T>
absl::StatusOr<std::vector<T>> Reduce(ParameterClient& client, const std::vector<T>& values,
                                      ReduceOptions options, ReduceStats* stats = nullptr) {
  options.dtype = DTypeOf<T>();
  options.timeout = std::min<absl::Duration>(options.timeout, absl::Seconds(60));
  if (options.name.empty()) options.name = "x";
  std::vector<std::byte> bytes;
  const absl::StatusOr<ReduceStats> reduced =
      client.Reduce({reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(T)},
                    options, bytes);
  if (!reduced.ok()) return reduced.status();
  if (stats != nullptr) *stats = *reduced;
  std::vector<T> result(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

ReduceOptions Of(ReduceOp op, std::vector<uint64_t> shape, uint32_t ordinal = 0) {
  ReduceOptions options;
  options.op = op;
  options.shape = std::move(shape);
  options.ordinal = ordinal;
  return options;
}

std::unique_ptr<HandMadeJob> StartJob(ClientKind kind, size_t workers,
                                      v1::Regime regime = v1::REGIME_SYNC,
                                      uint64_t sync_group_size = 0) {
  HandMadeJob::Options options = ServedBy(kind, SgdOver({4}));
  options.regime = regime;
  options.regime_options.set_sync_group_size(sync_group_size);
  options.workers = workers;
  auto job = std::make_unique<HandMadeJob>(options);
  EXPECT_THAT(job->client(0).Assign(PushItems({{0, 0, 0, 0}})), IsOk());
  job->Run();
  return job;
}

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

// Three workers, each on its own thread.
class SharedCollective : public ::testing::TestWithParam<ClientKind> {
 protected:
  static constexpr size_t kWorkers = 3;

  void Start(size_t workers = kWorkers) { job_ = StartJob(GetParam(), workers); }

  void OnAll(const std::function<void(uint32_t rank, ParameterClient&)>& work) {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      threads.emplace_back([&, rank] { work(rank, job_->client(rank)); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  std::unique_ptr<HandMadeJob> job_;
};

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

TEST_P(SharedCollective, AMismatchFailsOnEveryMemberAtOnceAndNamesBothCalls) {
  Start();
  OnAll([](uint32_t rank, ParameterClient& client) {
    WEIR_EXPECT_OK(Reduce<float>(client, {1}, Of(ReduceOp::kSum, {1})));
    ReduceOptions options = Of(rank == 1 ? ReduceOp::kGather : ReduceOp::kSum, {1}, 1);
    options.name = rank == 1 ? "hits" : "loss";
    EXPECT_THAT(Reduce<float>(client, {1}, options),
                HasStatus(absl::StatusCode::kInvalidArgument,
                          AllOf(HasSubstr("AllReduce(SUM) \"loss\" f32[1]"),
                                HasSubstr("AllGather \"hits\" f32[1]"),
                                HasSubstr("collective 1 of step 0"), HasSubstr("rank 1"))));
  });
}

// Rank 2 is at step 1 already: with several servers too it meets the others at once.
TEST_P(SharedCollective, AMemberThatSkipsOneIsFoundOutAtOnce) {
  Start();
  OnAll([](uint32_t rank, ParameterClient& client) {
    WEIR_EXPECT_OK(Reduce<float>(client, {1}, Of(ReduceOp::kSum, {1})));
    ReduceOptions options = Of(ReduceOp::kSum, {1}, rank == 2 ? 0 : 1);
    options.step = rank == 2 ? 1 : 0;
    EXPECT_THAT(
        Reduce<float>(client, {1}, options),
        HasStatus(absl::StatusCode::kInvalidArgument,
                  AllOf(HasSubstr("collective 1 of step 0"), HasSubstr("collective 0 of step 1"))));
  });
}

TEST_P(SharedCollective, TheDeadlineNamesWhoIsMissing) {
  Start();
  ReduceOptions options = Of(ReduceOp::kSum, {1});
  options.name = "loss";
  options.timeout = absl::Milliseconds(300);
  const auto wait = [&](size_t worker) {
    EXPECT_THAT(Reduce<float>(job_->client(worker), {1}, options),
                HasStatus(absl::StatusCode::kDeadlineExceeded,
                          AllOf(HasSubstr("AllReduce(SUM) \"loss\" f32[1]"),
                                HasSubstr("waits for rank 2 (worker"))));
  };
  std::thread other([&] { wait(1); });
  wait(0);
  other.join();
}

TEST_P(SharedCollective, AMemberThatLeavesWithinTheStepAbortsItAndTheOthersRepeatIt) {
  Start();
  std::vector<absl::Status> second(2);
  std::vector<std::vector<float>> repeated(2);
  Notification first_done[3];
  OnAll([&](uint32_t rank, ParameterClient& client) {
    WEIR_EXPECT_OK(Reduce<float>(client, {1}, Of(ReduceOp::kSum, {1})));
    first_done[rank].Notify();
    if (rank == 2) return;
    if (rank == 0) {
      for (Notification& done : first_done) EXPECT_TRUE(done.WaitFor(absl::Seconds(30)));
      job_->Remove(2);
    }
    second[rank] = Reduce<float>(client, {1}, Of(ReduceOp::kSum, {1}, 1)).status();
    ReduceStats stats;
    repeated[rank] = *Reduce<float>(client, {1}, Of(ReduceOp::kSum, {1}), &stats);
    EXPECT_EQ(stats.members, 2u);
    EXPECT_THAT(*Reduce<float>(client, {5}, Of(ReduceOp::kSum, {1}, 1)), ElementsAre(10));
  });
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(MayRepeatStep(second[rank])) << second[rank];
    EXPECT_THAT(second[rank], HasStatus(absl::StatusCode::kAborted, HasSubstr("rank 2")));
    EXPECT_THAT(repeated[rank], ElementsAre(2));
  }
}

TEST_P(SharedCollective, AMemberThatLeavesBeforeTheStepIsNotWaitedFor) {
  Start();
  std::thread other([&] {
    EXPECT_THAT(*Reduce<float>(job_->client(1), {2}, Of(ReduceOp::kSum, {1})), ElementsAre(3));
  });
  std::thread remover([&] { job_->Remove(2); });
  EXPECT_THAT(*Reduce<float>(job_->client(0), {1}, Of(ReduceOp::kSum, {1})), ElementsAre(3));
  other.join();
  remover.join();
}

TEST_P(SharedCollective, ARollbackEndsIt) {
  Start();
  std::thread coordinator([&] { job_->RollBack(); });
  EXPECT_THAT(Reduce<float>(job_->client(0), {1}, Of(ReduceOp::kSum, {1})),
              HasStatus(absl::StatusCode::kAborted, HasSubstr("attempt")));
  coordinator.join();
}

TEST_P(SharedCollective, RegimesWithoutStepsInCommonHaveNone) {
  job_ = StartJob(GetParam(), 2, v1::REGIME_ASYNC);
  EXPECT_THAT(Reduce<float>(job_->client(0), {1}, Of(ReduceOp::kSum, {1})),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("regime: sync")));
}

// Ranks 0 and 1, and 2 and 3, each pair at its own step and in its own collectives.
TEST_P(SharedCollective, OfSyncGroupsSpansTheMembersOfOne) {
  job_ = StartJob(GetParam(), 4, v1::REGIME_SYNC_GROUPS, 2);
  const auto pair = [&](uint32_t first, uint64_t steps, ReduceOp op) {
    std::thread other([&, first, steps, op] {
      for (uint64_t step = 0; step < steps; ++step) {
        ReduceOptions options = Of(op, {1});
        options.step = step;
        WEIR_EXPECT_OK(Reduce<float>(job_->client(first + 1), {7}, options));
      }
    });
    for (uint64_t step = 0; step < steps; ++step) {
      ReduceOptions options = Of(op, {1});
      options.step = step;
      ReduceStats stats;
      const auto got =
          Reduce<float>(job_->client(first), {static_cast<float>(first)}, options, &stats);
      WEIR_EXPECT_OK(got);
      const float mine = static_cast<float>(first);
      EXPECT_EQ(got.value_or(std::vector<float>()), op == ReduceOp::kGather
                                                        ? std::vector<float>({mine, 7})
                                                        : std::vector<float>({mine + 7}));
      EXPECT_EQ(stats.members, 2u);
    }
    other.join();
  };
  std::thread second([&] { pair(2, 5, ReduceOp::kGather); });
  pair(0, 3, ReduceOp::kSum);
  second.join();
}

TEST_P(SharedCollective, OfASyncGroupIsAbortedByItsOwnMembersAlone) {
  job_ = StartJob(GetParam(), 4, v1::REGIME_SYNC_GROUPS, 2);
  const auto sum = [&](size_t rank, uint32_t ordinal) {
    return Reduce<float>(job_->client(rank), {1}, Of(ReduceOp::kSum, {1}, ordinal));
  };
  // Both groups are within their step; then rank 3 leaves.
  std::thread begun[3];
  for (size_t i = 0; i < 3; ++i) begun[i] = std::thread([&, i] { WEIR_EXPECT_OK(sum(i + 1, 0)); });
  WEIR_EXPECT_OK(sum(0, 0));
  for (std::thread& thread : begun) thread.join();
  std::thread first([&] { EXPECT_THAT(*sum(0, 1), ElementsAre(2)); });
  std::thread remover([&] { job_->Remove(3); });
  const absl::Status left = sum(2, 1).status();
  EXPECT_TRUE(MayRepeatStep(left)) << left;
  remover.join();
  EXPECT_THAT(*sum(1, 1), ElementsAre(2));
  first.join();
  EXPECT_THAT(*sum(2, 0), ElementsAre(1));  // the step again, alone
}

TEST_P(SharedCollective, AReaderTakesPartInNone) {
  Start();
  EXPECT_THAT(Reduce<float>(*job_->NewReader(), {1}, Of(ReduceOp::kSum, {1})),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("reader")));
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
