// SPDX-License-Identifier: Apache-2.0
// Who takes part in a collective, and what becomes of it where one does not: the members differ,
// leave, are late or are of another sync group. collective_contract_test.cc has the clients.
#include <gmock/gmock.h>

#include <thread>
#include <vector>

#include "tests/integration/collective_calls.h"
#include "tests/support/call_and_wait.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace weir
