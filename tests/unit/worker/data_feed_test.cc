// SPDX-License-Identifier: Apache-2.0
#include "worker/data_feed.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <vector>

#include "tests/support/manual_executor.h"
#include "tests/support/quiet_session.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;

// Hands out what is asked for, while it is there. An absent one takes the whole timeout.
class RangeSession final : public QuietSession {
 public:
  explicit RangeSession(FakeClock& clock) : clock_(&clock) {}

  JobInfo Info() const override { return info; }
  absl::StatusOr<TakenRanges> TakeRanges(uint64_t examples, absl::Duration timeout) override {
    asked.push_back(examples);
    if (!answer.ok()) {
      clock_->SetNow(clock_->Now() + timeout);
      waited += timeout;
      const absl::Status failed = answer;
      if (on_fail) on_fail(timeout);
      return failed;
    }
    if (others_hold_the_rest) {
      clock_->SetNow(clock_->Now() + timeout);
      if (on_wait) on_wait();
      return TakenRanges{{}, false};
    }
    const uint64_t end = std::min(total, position_ + std::min(examples, most));
    if (position_ == end) return TakenRanges{{}, true};
    const DataRange range{0, position_, end};
    position_ = end;
    return TakenRanges{{range}, false};
  }

  JobInfo info;
  absl::Status answer;
  bool others_hold_the_rest = false;
  std::function<void()> on_wait;
  std::function<void(absl::Duration)> on_fail;
  uint64_t most = ~uint64_t{0};  // of one answer
  uint64_t total = 1000000;
  std::vector<uint64_t> asked;
  absl::Duration waited;

 private:
  FakeClock* clock_;
  uint64_t position_ = 0;
};

// Batches of 10; a million examples.
class AsyncFeedTest : public testing::Test {
 protected:
  AsyncFeedTest() {
    spec_.set_train_examples(1000000);
    spec_.set_workers(1);
    spec_.mutable_data()->mutable_batch()->set_global(10);
    spec_.mutable_regime()->set_kind(v1::REGIME_ASYNC);
    spec_.mutable_length()->set_epochs(1);
    session_.info.members = {{0, 0}};
  }

  void Begin() { feed_ = DataFeed::Create(spec_, session_, clock_, interrupted_, 0); }

  // Takes an item and trains on it for `took`.
  FeedItem Step(absl::Duration took) {
    const absl::StatusOr<FeedItem> item = feed_->Next(step_++);
    EXPECT_THAT(item, IsOk());
    if (!item.ok()) return {};
    clock_.SetNow(clock_.Now() + took);
    return *item;
  }

  // How long training goes on from now without the coordinator.
  absl::Duration Outlives(absl::Duration step) {
    session_.answer = absl::UnavailableError("the coordinator is away");
    absl::Duration trained;
    session_.info.stop = true;  // ends the wait for data
    while (feed_->Next(step_++).ok()) {
      clock_.SetNow(clock_.Now() + step);
      trained += step;
    }
    return trained;
  }

  FakeClock clock_;
  std::atomic<bool> interrupted_{false};
  RangeSession session_{clock_};
  v1::JobSpec spec_;
  std::unique_ptr<DataFeed> feed_;
  uint64_t step_ = 0;
};

constexpr absl::Duration kStep = absl::Milliseconds(100);

TEST_F(AsyncFeedTest, TheFirstRequestIsBoundedBecauseTheSpeedIsUnknown) {
  Begin();
  Step(kStep);
  EXPECT_THAT(session_.asked, ElementsAre(16 * 10));
}

// 10 examples in 0.1 s are 12,000 in 120 s; 150 are still there.
TEST_F(AsyncFeedTest, AfterOneStepTwoMinutesOfDataAreHeld) {
  Begin();
  Step(kStep);
  Step(kStep);
  EXPECT_THAT(session_.asked, ElementsAre(160, 12000 - 150));
  EXPECT_GE(Outlives(kStep), absl::Seconds(119));
}

// The first step takes 50 times as long as the others.
TEST_F(AsyncFeedTest, ASlowFirstStepIsCorrectedByThoseThatFollow) {
  Begin();
  Step(absl::Seconds(5));
  for (int i = 0; i < 100; ++i) Step(kStep);
  EXPECT_GE(Outlives(kStep), absl::Seconds(40));
}

TEST_F(AsyncFeedTest, NoMomentIsWithoutAMinuteOfData) {
  for (int steps = 2; steps < 3000; steps += 311) {
    session_ = RangeSession(clock_);
    session_.info.members = {{0, 0}};
    step_ = 0;
    Begin();
    for (int i = 0; i < steps; ++i) Step(kStep);
    EXPECT_GE(Outlives(kStep), absl::Seconds(59)) << steps;
  }
}

TEST_F(AsyncFeedTest, NobodyAsksForMoreThanAFairShare) {
  spec_.set_workers(2);
  spec_.mutable_data()->mutable_batch()->set_global(20);
  spec_.mutable_length()->set_examples(1000);
  session_.info.members = {{0, 0}, {1, 0}};
  Begin();
  Step(kStep);  // 16 batches. After it two are done, and a quarter of the other 98 is fair.
  Step(kStep);
  EXPECT_THAT(session_.asked, ElementsAre(160));
}

TEST_F(AsyncFeedTest, AnAbsentCoordinatorHoldsUpTrainingByLittle) {
  Begin();
  Step(kStep);
  session_.answer = absl::UnavailableError("the coordinator is away");
  for (int i = 0; i < 15; ++i) Step(kStep);
  EXPECT_EQ(session_.asked.size(), 2u);  // 5 s between two questions
  EXPECT_THAT(session_.waited, Le(absl::Milliseconds(200)));
}

TEST_F(AsyncFeedTest, WhatFailedToComeIsAskedForAgain) {
  Begin();
  Step(kStep);
  session_.answer = absl::DeadlineExceededError("no answer");
  Step(kStep);
  session_.answer = absl::OkStatus();
  Step(absl::Seconds(6));
  EXPECT_EQ(session_.asked.size(), 2u);
  Step(kStep);
  EXPECT_EQ(session_.asked.size(), 3u);
}

TEST_F(AsyncFeedTest, AnotherErrorEndsTheFeedAtOnce) {
  Begin();
  Step(kStep);
  session_.answer = absl::AbortedError("rolled back");
  EXPECT_THAT(feed_->Next(1).status(), HasStatus(absl::StatusCode::kAborted, "rolled back"));
}

TEST_F(AsyncFeedTest, WithoutDataItWaitsTenMinutesAndSaysWhy) {
  Begin();
  session_.answer = absl::UnavailableError("coordinator 127.0.0.1:4660: refused");
  const absl::Time began = clock_.Now();
  EXPECT_THAT(feed_->Next(0).status(),
              HasStatus(absl::StatusCode::kUnavailable, HasSubstr("127.0.0.1:4660")));
  EXPECT_EQ(clock_.Now() - began, absl::Minutes(10));
}

TEST_F(AsyncFeedTest, AWaitForDataEndsWhenTheJobShallStop) {
  Begin();
  session_.answer = absl::UnavailableError("the coordinator is away");
  session_.info.stop = true;
  EXPECT_EQ(feed_->Next(0).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(session_.asked.size(), 1u);
}

TEST_F(AsyncFeedTest, AWaitForDataThatOthersHoldEndsSoonAfterASignalOrAStop) {
  for (const bool signal : {true, false}) {
    Begin();
    session_.others_hold_the_rest = true;
    const absl::Time said = clock_.Now() + absl::Seconds(60);
    session_.on_wait = [&] {
      if (clock_.Now() >= said) (signal ? interrupted_ = true : session_.info.stop = true);
    };
    EXPECT_EQ(feed_->Next(0).status().code(), absl::StatusCode::kCancelled);
    EXPECT_LE(clock_.Now() - said, absl::Milliseconds(400));
    interrupted_ = false;
    session_.info.stop = false;
  }
}

TEST_F(AsyncFeedTest, AWaitForDataThatOthersHoldEndsAfterTenMinutes) {
  Begin();
  session_.others_hold_the_rest = true;
  const absl::Time began = clock_.Now();
  EXPECT_THAT(feed_->Next(0).status(),
              HasStatus(absl::StatusCode::kDeadlineExceeded, HasSubstr("other workers hold")));
  EXPECT_EQ(clock_.Now() - began, absl::Minutes(10));
}

TEST_F(AsyncFeedTest, WhoAnswersTooLateForALookIsGivenMoreTime) {
  Begin();
  session_.answer = absl::DeadlineExceededError("a slow disk");
  session_.on_fail = [&](absl::Duration timeout) {
    if (timeout >= absl::Seconds(5)) session_.answer = absl::OkStatus();
  };
  EXPECT_EQ(Step(kStep).consumed, 10u);
  EXPECT_EQ(session_.asked.size(), 3u) << "0.2 s, 5 s, and the one that is answered";
}

// 25 examples in ranges of at most 10: the last batch is short.
TEST_F(AsyncFeedTest, EveryExampleComesOnceAndThenTheEnd) {
  spec_.mutable_length()->set_examples(25);
  session_.total = 25;
  session_.most = 10;
  Begin();
  std::vector<uint64_t> firsts;
  FeedItem item = Step(kStep);
  uint64_t examples = 0;
  for (; !item.end; item = Step(kStep)) {
    firsts.push_back(item.slice.first);
    examples += item.slice.examples();
  }
  EXPECT_THAT(firsts, ElementsAre(0, 10, 20));
  EXPECT_EQ(examples, 25u);
}

std::vector<std::pair<uint64_t, uint64_t>> EndsOf(const std::vector<BatchSlice>& slices) {
  std::vector<std::pair<uint64_t, uint64_t>> ends;
  for (const BatchSlice& slice : slices) ends.emplace_back(slice.first, slice.end);
  return ends;
}

// 25 examples in one range: the third batch is short, and the fourth is not known.
TEST_F(AsyncFeedTest, WhatIsUpcomingIsWhatComes) {
  spec_.mutable_length()->set_examples(1000);
  session_.total = 25;
  Begin();
  EXPECT_THAT(feed_->Upcoming(0, 3), IsEmpty());
  Step(kStep);
  EXPECT_THAT(EndsOf(feed_->Upcoming(1, 3)), ElementsAre(std::pair(10, 20), std::pair(20, 25)));
  EXPECT_THAT(EndsOf(feed_->Upcoming(1, 1)), ElementsAre(std::pair(10, 20)));
  EXPECT_EQ(Step(kStep).slice.end, 20u);
  EXPECT_EQ(Step(kStep).slice.end, 25u);
}

// Two workers, steps of 10, epochs of 25: this one's part of each.
TEST_F(AsyncFeedTest, InSyncWhatIsUpcomingIsWhatComesWhileNobodyLeaves) {
  spec_.set_train_examples(25);
  spec_.mutable_regime()->set_kind(v1::REGIME_SYNC);
  spec_.mutable_length()->set_steps(4);
  session_.info.members = {{0, 0}, {1, 0}};
  session_.info.rank = 1;
  Begin();
  const std::vector<BatchSlice> upcoming = feed_->Upcoming(1, 9);
  EXPECT_THAT(EndsOf(upcoming),
              ElementsAre(std::pair(15, 20), std::pair(23, 25), std::pair(5, 10)));
  for (uint64_t step = 1; step < 4; ++step) {
    WEIR_ASSERT_OK_AND_ASSIGN(const FeedItem item, feed_->Next(step));
    EXPECT_EQ(item.slice.first, upcoming[step - 1].first);
    EXPECT_EQ(item.slice.epoch, upcoming[step - 1].epoch);
  }
}

// Somebody may wait for this worker's steps: it makes some without examples.
TEST_F(AsyncFeedTest, ABoundedWorkerWithoutDataGoesOnWithoutExamples) {
  spec_.mutable_regime()->set_kind(v1::REGIME_BOUNDED_STALENESS);
  spec_.mutable_regime()->set_bounded_staleness(3);
  Begin();
  EXPECT_EQ(Step(kStep).consumed, 10u);
  session_.others_hold_the_rest = true;
  FeedItem item;
  for (int i = 0; i < 20; ++i) item = Step(kStep);
  EXPECT_FALSE(item.end);
  EXPECT_EQ(item.slice.examples(), 0u);
  EXPECT_EQ(item.consumed, 160u);  // all of the first answer
  session_.others_hold_the_rest = false;
  EXPECT_EQ(Step(kStep).slice.first, 160u);
}

// Batches of 10 for each of two groups of two.
class GroupFeedTest : public AsyncFeedTest {
 protected:
  GroupFeedTest() {
    spec_.set_workers(4);
    spec_.mutable_data()->mutable_batch()->set_global(20);
    spec_.mutable_regime()->set_kind(v1::REGIME_SYNC_GROUPS);
    spec_.mutable_regime()->set_sync_group_size(2);
    session_.info.members = {{0, 0, 0}, {1, 0, 0}, {2, 0, 1}, {3, 0, 1}};
  }
};

TEST_F(GroupFeedTest, AGroupDividesEachBatchInTheOrderOfRanks) {
  session_.info.rank = 2;
  Begin();
  const FeedItem first = Step(kStep);
  EXPECT_EQ(first.slice.first, 0u);
  EXPECT_EQ(first.slice.end, 5u);
  EXPECT_EQ(first.consumed, 10u);
  EXPECT_EQ(first.position, 20);
  session_ = RangeSession(clock_);
  session_.info.members = {{0, 0, 0}, {1, 0, 0}, {2, 0, 1}, {3, 0, 1}};
  session_.info.rank = 3;
  step_ = 0;
  Begin();
  const FeedItem other = Step(kStep);
  EXPECT_EQ(other.slice.first, 5u);
  EXPECT_EQ(other.slice.end, 10u);
}

TEST_F(GroupFeedTest, AGroupThatGetsSmallerTakesItsBatchesAlone) {
  session_.info.rank = 1;
  Begin();
  Step(kStep);
  session_.info.members = {{1, 0, 0}, {2, 0, 1}, {3, 0, 1}};
  const FeedItem item = Step(kStep);
  EXPECT_EQ(item.slice.first, 10u);
  EXPECT_EQ(item.slice.end, 20u);
}

// The group has done 7 steps of this attempt, which began at step 100.
TEST_F(GroupFeedTest, OneThatJoinsTakesTheRangesUpWhereItsGroupIs) {
  session_.info.rank = 3;
  session_.info.resume_step = 100;
  session_.info.members = {{0, 100, 0}, {1, 100, 0}, {2, 100, 1}, {3, 107, 1}};
  session_.most = 30;
  step_ = 107;
  Begin();
  const FeedItem item = Step(kStep);
  EXPECT_EQ(item.slice.first, 75u);
  EXPECT_EQ(item.slice.end, 80u);
  EXPECT_EQ(item.consumed, 80u);
}

}  // namespace
}  // namespace weir
