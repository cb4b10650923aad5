// SPDX-License-Identifier: Apache-2.0
// Declarations, barriers, data ranges.
#include "rpc/errors.h"
#include "tests/unit/coordinator/coordinator_fixture.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;

using CoordinatorData = CoordinatorTest;

TEST_F(CoordinatorData, EqualDeclarationIsIdempotentAndAnUnequalOneNamesTheField) {
  WEIR_ASSERT_OK(Join(1, SyncJob(2)));
  WEIR_ASSERT_OK(Join(2, SyncJob(2)));
  WEIR_ASSERT_OK(Declare(1, OneVariable(8)));
  WEIR_EXPECT_OK(Declare(2, OneVariable(8)));
  EXPECT_THAT(
      Declare(2, OneVariable(9)),
      HasStatus(kFailedPrecondition, HasSubstr("variables[0].shape[0] is 8 there and 9 here")));
  EXPECT_EQ(View().declaration().variables(0).shape(0), 8);
}

TEST_F(CoordinatorData, AnotherDtypeOfASecondWorkerIsRefusedByVariableWithBothDtypes) {
  WEIR_ASSERT_OK(Join(1, SyncJob(2)));
  WEIR_ASSERT_OK(Join(2, SyncJob(2)));
  v1::Declaration first = OneVariable(8);
  *first.add_variables() = first.variables(0);
  first.mutable_variables(1)->set_name("bias");
  WEIR_ASSERT_OK(Declare(1, first));
  v1::Declaration other = first;
  other.mutable_variables(1)->set_dtype(v1::DTYPE_F64);
  EXPECT_THAT(Declare(2, other),
              HasStatus(kFailedPrecondition,
                        "job 'job' has declared otherwise: variable 'bias': variables[1].dtype is "
                        "DTYPE_F32 there and DTYPE_F64 here; all its workers must declare the "
                        "same"));
  EXPECT_EQ(View().declaration().variables(1).dtype(), v1::DTYPE_F32);
  WEIR_EXPECT_OK(Declare(2, first));
}

TEST_F(CoordinatorData, BadDeclarationsAreRefusedByNameAndChangeNothing) {
  WEIR_ASSERT_OK(Join(1, SyncJob(1)));
  v1::Declaration bad = OneVariable();
  bad.mutable_variables(0)->set_group(2);
  EXPECT_THAT(Declare(1, bad), HasStatus(kInvalidArgument, HasSubstr("'weights': group 2")));
  bad = OneVariable();
  bad.mutable_variables(0)->set_dtype(v1::DTYPE_I64);
  EXPECT_THAT(Declare(1, bad),
              HasStatus(kInvalidArgument,
                        "variable 'weights': an optimizer works on DTYPE_F32 and "
                        "DTYPE_F64, found DTYPE_I64; declare it as state (group 0)"));
  bad = OneVariable();
  bad.mutable_variables(0)->set_dtype(static_cast<v1::DType>(17));
  EXPECT_THAT(Declare(1, bad),
              HasStatus(kInvalidArgument, "variable 'weights': dtype 17 is unknown"));
  bad = OneVariable();
  *bad.add_variables() = bad.variables(0);
  EXPECT_THAT(Declare(1, bad), HasStatus(kInvalidArgument, HasSubstr("twice")));
  bad = OneVariable(uint64_t{1} << 62);
  EXPECT_THAT(Declare(1, bad), HasStatus(kInvalidArgument, HasSubstr("too large")));
  bad = OneVariable();
  bad.mutable_variables(0)->set_group(0);
  bad.mutable_variables(0)->set_dtype(v1::DTYPE_I64);
  bad.mutable_variables(0)->set_aggregation(v1::AGGREGATION_MEAN);
  EXPECT_THAT(Declare(1, bad), HasStatus(kInvalidArgument, HasSubstr("MEAN")));
  EXPECT_THAT(View().declaration().variables(), IsEmpty());
  run_of_[77] = runs_["job"];
  EXPECT_THAT(Declare(77, OneVariable()),
              HasStatus(absl::StatusCode::kNotFound, HasSubstr("not registered")));
}

TEST_F(CoordinatorData, QuotaCountsSlotsAndAccumulators) {
  WEIR_ASSERT_OK(AddServer("server-0", 900));
  v1::JobSpec spec = SyncJob(1);
  // 1,000 floats: weights, momentum, and the accumulator of sync: 12,000 bytes.
  spec.set_max_bytes(11999);
  WEIR_ASSERT_OK(Join(1, spec));
  EXPECT_THAT(Declare(1, OneVariable(1000)),
              HasStatus(absl::StatusCode::kResourceExhausted,
                        AllOf(HasSubstr("needs 12000 bytes"), HasSubstr("11999"))));
  WEIR_ASSERT_OK(Leave(1, false));
  spec.set_max_bytes(12000);
  WEIR_ASSERT_OK(Join(2, spec));
  WEIR_EXPECT_OK(Declare(2, OneVariable(1000)));
}

TEST_F(CoordinatorData, MemoryLimitsCountWhatOtherJobsTake) {
  WEIR_ASSERT_OK(AddServer("server-0", 900, 20000));
  WEIR_ASSERT_OK(Join(1, SyncJob(1)));
  WEIR_ASSERT_OK(Declare(1, OneVariable(1000)));  // 12,000 of 20,000
  v1::JobSpec other = SyncJob(1);
  other.set_name("other");
  WEIR_ASSERT_OK(Join(2, other));
  EXPECT_THAT(Declare(2, OneVariable(1000)),
              HasStatus(absl::StatusCode::kResourceExhausted,
                        AllOf(HasSubstr("server-0"), HasSubstr("12000 of 20000"))));
  WEIR_EXPECT_OK(Declare(2, OneVariable(500)));
}

TEST_F(CoordinatorData, BarrierCountsWorkersNotMessages) {
  RunJob(SyncJob(2), {1, 2});
  const auto first = Enter(1, "end", 3);
  const auto repeated = Enter(1, "end", 3);
  EXPECT_FALSE(first->has_value());
  EXPECT_FALSE(repeated->has_value());
  const auto second = Enter(2, "end", 4);
  for (const auto& call : {first, repeated, second}) {
    ASSERT_TRUE(call->has_value());
    WEIR_ASSERT_OK(**call);
    EXPECT_EQ((**call)->members(), 2);
    EXPECT_EQ((**call)->sums().at("value"), 7);
  }
  const auto after = Enter(1, "end", 100);
  ASSERT_TRUE(after->has_value());
  EXPECT_EQ((**after)->sums().at("value"), 7) << "the same result, whoever repeats the call";
  EXPECT_FALSE(Enter(1, "other", 1)->has_value());
}

// Workers 1 and 2 meet after 42 and 43 steps; worker 3 counts from step 43, so it comes after 44.
TEST_F(CoordinatorData, OneThatJoinsBesideABarrierIsNotWaitedFor) {
  v1::JobSpec spec = SyncJob(3);
  spec.set_min_workers(2);
  RunJob(spec, {1, 2});
  WEIR_ASSERT_OK(Beat(1, 40));
  const auto enter = [this](uint64_t worker, uint64_t step) {
    return Enter(worker, absl::StrCat("evaluate-", step), 1, absl::Minutes(1), step);
  };
  const auto open = enter(1, 42);
  WEIR_ASSERT_OK(Join(3, spec));
  ASSERT_EQ(View().members(2).first_step(), 43);
  enter(2, 42);
  ASSERT_TRUE(open->has_value());
  EXPECT_EQ((**open)->members(), 2);
  const auto next = enter(1, 43);
  enter(2, 43);
  EXPECT_TRUE(next->has_value());
  const auto together = enter(1, 44);
  enter(2, 44);
  EXPECT_FALSE(together->has_value());
  enter(3, 44);
  ASSERT_TRUE(together->has_value());
  EXPECT_EQ((**together)->sums().at("value"), 3);
  Enter(1, "all", 1);
  EXPECT_FALSE(Enter(2, "all", 1)->has_value()) << "without a step all members are counted";
}

// The job ends with step 42, before the first step of worker 2.
TEST_F(CoordinatorData, OneThatJoinsAtTheEndGetsTheResultOfTheOthers) {
  v1::JobSpec spec = SyncJob(2);
  spec.set_min_workers(1);
  RunJob(spec, {1});
  WEIR_ASSERT_OK(Beat(1, 40));
  WEIR_ASSERT_OK(Join(2, spec));
  const auto early = Enter(2, "end", 100, absl::Minutes(1), 42);
  EXPECT_FALSE(early->has_value());
  Enter(1, "end", 1, absl::Minutes(1), 42);
  ASSERT_TRUE(early->has_value());
  EXPECT_EQ((**early)->sums().at("value"), 1);
  WEIR_ASSERT_OK(Leave(1, true));
  EXPECT_TRUE(Enter(2, "saved", 1, absl::Minutes(1), 42)->has_value()) << "nobody else is left";
}

TEST_F(CoordinatorData, DeadWorkerLeavesTheBarrier) {
  RunJob(SyncJob(3), {1, 2, 3});
  const auto first = Enter(1, "end", 1);
  const auto second = Enter(2, "end", 10);
  Pass(kLease + kTick, {1, 2}, {900, 901});
  ASSERT_TRUE(first->has_value());
  EXPECT_EQ((**first)->sums().at("value"), 11);
  EXPECT_EQ((**first)->members(), 2);
  // And what it had brought in leaves with it.
  const auto third = Enter(1, "saved", 1);
  const auto fourth = Enter(2, "saved", 10);
  EXPECT_TRUE(third->has_value());
  const auto alone = Enter(1, "next", 1);
  WEIR_ASSERT_OK(Leave(2, true));
  ASSERT_TRUE(alone->has_value());
  EXPECT_EQ((**alone)->members(), 1);
}

TEST_F(CoordinatorData, BarrierAtItsDeadlineNamesWhoIsMissing) {
  RunJob(SyncJob(2), {1, 2});
  const auto call = Enter(1, "end", 1, absl::Seconds(3));
  Pass(absl::Seconds(4), {1, 2}, {900, 901});
  ASSERT_TRUE(call->has_value());
  EXPECT_THAT(**call, HasStatus(absl::StatusCode::kDeadlineExceeded,
                                AllOf(HasSubstr("rank 1 (host-2)"), Not(HasSubstr("rank 0")))));
  // It stays entered: the other one completes the barrier, and the repetition gets the result.
  EXPECT_TRUE(Enter(2, "end", 1)->has_value());
  EXPECT_TRUE(Enter(1, "end", 1)->has_value());
}

TEST_F(CoordinatorData, BarriersAreKeptAndOpenedUpToANumber) {
  RunJob(SyncJob(2), {1, 2});
  EXPECT_THAT(**Enter(1, std::string(257, 'x'), 1), HasStatus(kInvalidArgument, HasSubstr("256")));
  const auto complete = [this](const std::string& name, double value) {
    Enter(1, name, value);
    return Enter(2, name, value);
  };
  for (int i = 0; i < 65; ++i) ASSERT_TRUE(complete(absl::StrCat("b", i), i)->has_value());
  Boot();  // the newest results are kept, in their order
  WEIR_ASSERT_OK(AddServer("server-0", 900));
  WEIR_ASSERT_OK(AddServer("server-1", 901));
  const auto kept = Enter(1, "b1", 100);
  ASSERT_TRUE(kept->has_value());
  EXPECT_EQ((**kept)->sums().at("value"), 2);
  EXPECT_FALSE(Enter(1, "b0", 100)->has_value()) << "the oldest is forgotten";
  for (int i = 1; i < 64; ++i) EXPECT_FALSE(Enter(1, absl::StrCat("c", i), 1)->has_value());
  const auto beyond = Enter(1, "c64", 1);
  ASSERT_TRUE(beyond->has_value());
  EXPECT_THAT(**beyond, HasStatus(absl::StatusCode::kResourceExhausted, HasSubstr("64")));
  EXPECT_TRUE(Enter(2, "c1", 1)->has_value()) << "one that is open may be entered";
}

std::vector<std::pair<uint64_t, uint64_t>> Spans(const v1::TakeRangesReply& reply) {
  std::vector<std::pair<uint64_t, uint64_t>> spans;
  for (const v1::DataRange& range : reply.ranges()) {
    spans.emplace_back(range.epoch() * 1000 + range.first(), range.epoch() * 1000 + range.end());
  }
  return spans;
}

TEST_F(CoordinatorData, EveryPositionIsHandedOutOnceInWholeBatches) {
  v1::JobSpec spec = AsyncJob(2);
  spec.mutable_length()->set_epochs(2.5);
  RunJob(spec, {1, 2});
  std::vector<int> given(2500, 0);
  std::map<uint64_t, uint64_t> taken;
  bool end = false;
  for (uint64_t request = 1; !end && request < 1000; ++request) {
    for (const uint64_t worker : {1, 2}) {
      WEIR_ASSERT_OK_AND_ASSIGN(const auto reply, Take(worker, request, 70, taken[worker]));
      for (const auto& [first, last] : Spans(reply)) {
        EXPECT_EQ((last - first) % 10, 0);
        taken[worker] += last - first;
        for (uint64_t i = first; i < last; ++i) ++given[i];
      }
      end = reply.end_of_data();
    }
  }
  EXPECT_TRUE(end);
  EXPECT_THAT(given, ::testing::Each(1));
}

TEST_F(CoordinatorData, RepeatedRequestGetsTheSameRanges) {
  RunJob(AsyncJob(2), {1, 2});
  WEIR_ASSERT_OK_AND_ASSIGN(const auto first, Take(1, 1, 30));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto again, Take(1, 1, 30));
  EXPECT_THAT(Spans(first), ElementsAre(std::make_pair(0u, 30u)));
  EXPECT_EQ(Spans(first), Spans(again));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto next, Take(1, 2, 30));
  EXPECT_THAT(Spans(next), ElementsAre(std::make_pair(30u, 60u)));
  EXPECT_THAT(Take(1, 1, 30), HasStatus(kInvalidArgument, HasSubstr("older")));
}

TEST_F(CoordinatorData, UnfinishedRangesOfTheDeadComeAgain) {
  RunJob(AsyncJob(2), {1, 2});
  WEIR_ASSERT_OK_AND_ASSIGN(const auto lost, Take(2, 1, 50));
  EXPECT_THAT(Spans(lost), ElementsAre(std::make_pair(0u, 50u)));
  WEIR_ASSERT_OK(Report(2, 2, 20));  // of its 50 it has done 20, in their order
  Pass(kLease + kTick, {1}, {900, 901});
  WEIR_ASSERT_OK_AND_ASSIGN(const auto again, Take(1, 1, 30));
  EXPECT_THAT(Spans(again), ElementsAre(std::make_pair(20u, 50u)));
}

TEST_F(CoordinatorData, EndOfDataIsToldWhenNothingCanComeBack) {
  v1::JobSpec spec = AsyncJob(2);
  spec.mutable_length()->set_examples(20);
  RunJob(spec, {1, 2});
  WEIR_ASSERT_OK_AND_ASSIGN(const auto one, Take(1, 1, 10));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto two, Take(2, 1, 10));
  EXPECT_THAT(one.ranges(), SizeIs(1));
  EXPECT_THAT(two.ranges(), SizeIs(1));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto early, Take(1, 2, 10, 10));
  EXPECT_THAT(early.ranges(), IsEmpty());
  EXPECT_FALSE(early.end_of_data()) << "worker 2 may die with its range";
  WEIR_ASSERT_OK_AND_ASSIGN(const auto second, Take(2, 2, 10, 10));
  EXPECT_TRUE(second.end_of_data());
  WEIR_ASSERT_OK_AND_ASSIGN(const auto first, Take(1, 3, 10, 10));
  EXPECT_TRUE(first.end_of_data());
}

TEST_F(CoordinatorData, FastWorkersGetDataForTwoMinutes) {
  v1::JobSpec spec = AsyncJob(1);
  spec.mutable_length()->set_epochs(1000);
  RunJob(spec, {1});
  v1::ReportProgressRequest report;
  report.set_run_id(runs_["job"]);
  report.set_worker(1);
  report.set_attempt(1);
  report.mutable_progress()->set_samples_per_second(50);
  WEIR_ASSERT_OK(Call(&Coordinator::ReportProgress, report));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto reply, Take(1, 1, 10));
  uint64_t sum = 0;
  for (const auto& [first, last] : Spans(reply)) sum += last - first;
  EXPECT_EQ(sum, 6000);
}

// 1,000 examples for two: each may hold a quarter of what is not done.
TEST_F(CoordinatorData, WhatAWorkerHoldsCountsInItsFairShare) {
  RunJob(AsyncJob(2), {1, 2});
  uint64_t held = 0;
  for (uint64_t request = 1; request <= 20; ++request) {
    WEIR_ASSERT_OK_AND_ASSIGN(const auto reply, Take(1, request, 1000));
    for (const auto& [first, last] : Spans(reply)) held += last - first;
  }
  // A batch comes with each question all the same: one that has none must not be left without.
  EXPECT_EQ(held, 250u + 19 * 10);
}

TEST_F(CoordinatorData, OneAnswerHasAtMostAThousandRanges) {
  v1::JobSpec spec = AsyncJob(1);
  spec.set_train_examples(1);  // so each epoch is a range of its own
  spec.mutable_length()->set_epochs(1e12);
  RunJob(spec, {1});
  WEIR_ASSERT_OK_AND_ASSIGN(const auto reply, Take(1, 1, ~uint64_t{0}));
  EXPECT_THAT(reply.ranges(), SizeIs(1000));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto next, Take(1, 2, 1, 1000));
  EXPECT_EQ(next.ranges(0).epoch(), 1000) << "none is left out";
}

// Saved with 1,000 examples, resumed with 40 of them: 30 .. 50 was not finished, 60 .. 80 neither.
TEST_F(CoordinatorData, UnfinishedRangesBeyondTheTrainingSetAreLeftOut) {
  RunJob(AsyncJob(2), {1, 2});
  WEIR_ASSERT_OK(Take(1, 1, 50));  // 0 .. 50
  WEIR_ASSERT_OK(Take(2, 1, 30));  // 50 .. 80
  const auto saved = Save();
  WEIR_ASSERT_OK(Mark(1, 30));
  WEIR_ASSERT_OK(Mark(2, 10));
  ASSERT_TRUE(saved->has_value());
  WEIR_ASSERT_OK(Leave(1, true));
  WEIR_ASSERT_OK(Leave(2, true));
  v1::JobSpec smaller = AsyncJob(1);
  smaller.set_train_examples(40);
  smaller.mutable_length()->set_epochs(3);
  smaller.set_resume("auto");
  WEIR_ASSERT_OK(Join(3, smaller));
  WEIR_ASSERT_OK(Declare(3, OneVariable()));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto first, Take(3, 1, 1000));
  ASSERT_THAT(first.ranges(), SizeIs(2));
  EXPECT_EQ(first.ranges(0).first(), 30);
  EXPECT_EQ(first.ranges(0).end(), 40);
  EXPECT_EQ(first.ranges(1).epoch(), 2) << "80 examples are two epochs of 40";
  EXPECT_EQ(first.ranges(1).first(), 0);
}

// Handed out far ahead, of 3 epochs; with 1 epoch what is left is that of the first.
TEST_F(CoordinatorData, WhatWasHandedOutBehindALengthThatIsShorterNowIsNotTrainedOn) {
  v1::JobSpec spec = AsyncJob(1);
  spec.set_train_examples(100);
  spec.mutable_length()->set_epochs(3);
  RunJob(spec, {1});
  for (uint64_t request = 1; request <= 3; ++request) WEIR_ASSERT_OK(Take(1, request, 1000));
  const auto saved = Save();
  WEIR_ASSERT_OK(Mark(1, 80));
  ASSERT_TRUE(saved->has_value());
  ASSERT_GT(Checkpoints()[0].next_epoch() * 100 + Checkpoints()[0].next_position(), 110u);
  WEIR_ASSERT_OK(Leave(1, true));
  spec.mutable_length()->set_epochs(1);
  spec.set_resume("auto");
  WEIR_ASSERT_OK(Join(2, spec));
  WEIR_ASSERT_OK(Declare(2, OneVariable()));
  uint64_t examples = 0;
  for (uint64_t request = 1; request <= 10; ++request) {
    WEIR_ASSERT_OK_AND_ASSIGN(const auto taken, Take(2, request, 1000, examples));
    for (const v1::DataRange& range : taken.ranges()) {
      EXPECT_EQ(range.epoch(), 0u);
      examples += range.end() - range.first();
    }
  }
  EXPECT_EQ(examples, 20u);
  // Longer once more, it goes on where the shorter length had ended.
  const auto again = Save();
  WEIR_ASSERT_OK(Mark(2, examples));
  ASSERT_TRUE(again->has_value());
  EXPECT_EQ(Checkpoints()[0].next_epoch(), 1u);
  EXPECT_EQ(Checkpoints()[0].next_position(), 0u);
}

TEST_F(CoordinatorData, RangesAreOfAsync) {
  RunJob(SyncJob(1), {1});
  EXPECT_THAT(Take(1, 1, 10), HasStatus(kFailedPrecondition, HasSubstr("async")));
}

}  // namespace
}  // namespace weir
