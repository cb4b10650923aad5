// SPDX-License-Identifier: Apache-2.0
// Clients of one job in the regimes between sync and async: over server objects and over gRPC.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/client_values.h"
#include "tests/support/eventually.h"
#include "tests/support/hand_made_job.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

class RegimesOverTransport : public ::testing::TestWithParam<bool> {
 protected:
  void Start(v1::Regime regime, const v1::RegimeSpec& regime_options, size_t workers) {
    HandMadeJob::Options options;
    options.declaration = declaration_;
    options.regime = regime;
    options.regime_options = regime_options;
    options.workers = workers;
    options.servers = 2;
    options.over_grpc = GetParam();
    job_ = std::make_unique<HandMadeJob>(options);
    WEIR_ASSERT_OK(job_->client(0).Assign(PushItems(Filled(0))));
    job_->Run();
  }
  Values Filled(float value) const { return weir::Filled(declaration_, value); }
  absl::StatusOr<PushStats> Step(size_t worker, const PushOptions& options, float gradient,
                                 Values* weights = nullptr) {
    const Values gradients = Filled(gradient);
    Values into = Filled(0);
    auto stats = job_->client(worker).PushPull(PushItems(gradients), PullItems(into), options);
    if (weights != nullptr) *weights = into;
    return stats;
  }

  const Declaration declaration_ = SgdOver({3, 5000});
  std::unique_ptr<HandMadeJob> job_;
};

// The slow worker makes a step when the fast ones have got as far as they may, or further.
TEST_P(RegimesOverTransport, TheFastAreNeverMoreThanTheBoundAheadAndNotStoppedBefore) {
  constexpr uint64_t kBound = 3;
  constexpr uint64_t kSteps = 40;
  v1::RegimeSpec bounded;
  bounded.set_bounded_staleness(kBound);
  Start(v1::REGIME_BOUNDED_STALENESS, bounded, 3);
  std::atomic<uint64_t> slow_pushed{0};  // steps, counted before the push
  std::array<std::atomic<uint64_t>, 3> begun{};
  std::atomic<uint64_t> most_ahead{0};
  std::vector<std::thread> threads;
  for (size_t worker = 1; worker < 3; ++worker) {
    threads.emplace_back([&, worker] {
      for (uint64_t step = 0; step < kSteps; ++step) {
        const uint64_t pushed = slow_pushed;
        if (step > pushed) most_ahead = std::max<uint64_t>(most_ahead, step - pushed);
        begun[worker] = step;
        EXPECT_THAT(Step(worker, AtStep(step), 1), IsOk());
      }
    });
  }
  for (uint64_t step = 0; step < kSteps; ++step) {
    const uint64_t allowed = std::min(step + kBound, kSteps - 1);
    EXPECT_TRUE(Eventually([&] { return begun[1] >= allowed && begun[2] >= allowed; }));
    slow_pushed = step + 1;
    EXPECT_THAT(Step(0, AtStep(step), 1), IsOk());
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most_ahead, kBound);
  EXPECT_THAT(PullAll(job_->client(0), declaration_), Each(Each(-static_cast<float>(3 * kSteps))));
}

TEST_P(RegimesOverTransport, AFastWorkersDeadlineNamesTheOneThatItWaitsFor) {
  v1::RegimeSpec bounded;
  bounded.set_bounded_staleness(1);
  Start(v1::REGIME_BOUNDED_STALENESS, bounded, 2);
  WEIR_ASSERT_OK(Step(0, AtStep(0), 1));
  PushOptions options = AtStep(1);
  options.timeout = absl::Milliseconds(300);
  EXPECT_THAT(Step(0, options, 1), HasStatus(absl::StatusCode::kDeadlineExceeded,
                                             AllOf(HasSubstr("rank 1 (worker 0000000000000002)"),
                                                   HasSubstr("bounded_staleness is 1"))));
}

TEST_P(RegimesOverTransport, NobodyWaitsForAWorkerThatHasFinished) {
  v1::RegimeSpec bounded;
  bounded.set_bounded_staleness(1);
  Start(v1::REGIME_BOUNDED_STALENESS, bounded, 2);
  PushOptions last = AtStep(0);
  last.weight = 0;
  last.examples = 0;
  last.finished = true;
  WEIR_ASSERT_OK(job_->client(1).Push({}, last));
  for (uint64_t step = 0; step < 5; ++step) WEIR_ASSERT_OK(Step(0, AtStep(step), 1));
  EXPECT_THAT(PullAll(job_->client(0), declaration_), Each(Each(-5)));
}

// Group 0: (1 * 1 + 0.5 * 4) / 1.5 = 2 in each of two steps. Group 1: (3 + 5) / 2 = 4, once.
TEST_P(RegimesOverTransport, TwoGroupsOfTwoGiveWhatIsWorkedOutByHand) {
  v1::RegimeSpec groups;
  groups.set_sync_group_size(2);
  Start(v1::REGIME_SYNC_GROUPS, groups, 4);
  const auto pair = [&](size_t first, uint64_t step, float one, float two, double weight) {
    Values weights;
    Values others;
    std::thread other(
        [&] { EXPECT_THAT(Step(first + 1, AtStep(step, weight), two, &others), IsOk()); });
    EXPECT_THAT(Step(first, AtStep(step), one, &weights), IsOk());
    other.join();
    EXPECT_EQ(weights, others);
    return weights;
  };
  EXPECT_THAT(pair(0, 0, 1, 4, 0.5), Each(Each(-2)));
  EXPECT_THAT(pair(2, 0, 3, 5, 1), Each(Each(-6)));
  EXPECT_THAT(pair(0, 1, 1, 4, 0.5), Each(Each(-8)));
}

TEST_P(RegimesOverTransport, AWorkerThatStallsStopsNobodyWithABackupAndItsLatePushIsDropped) {
  v1::RegimeSpec backup;
  backup.set_backup_workers(1);
  Start(v1::REGIME_SYNC, backup, 3);
  std::thread other([&] {
    for (uint64_t step = 0; step < 5; ++step) EXPECT_THAT(Step(1, AtStep(step), 3), IsOk());
  });
  for (uint64_t step = 0; step < 5; ++step) EXPECT_THAT(Step(0, AtStep(step), 1), IsOk());
  other.join();
  Values weights;
  WEIR_ASSERT_OK_AND_ASSIGN(const PushStats late, Step(2, AtStep(0), 100, &weights));
  EXPECT_TRUE(late.late);
  EXPECT_EQ(late.next_step, 5u);
  EXPECT_EQ(late.next_group_step, 5u);
  EXPECT_THAT(weights, Each(Each(-10)));
  // It is in step again.
  std::thread again([&] { EXPECT_THAT(Step(2, AtStep(late.next_step), 5), IsOk()); });
  WEIR_ASSERT_OK_AND_ASSIGN(const PushStats in_time, Step(0, AtStep(5), 1, &weights));
  again.join();
  EXPECT_FALSE(in_time.late);
  EXPECT_THAT(weights, Each(Each(-13)));
}

INSTANTIATE_TEST_SUITE_P(Transports, RegimesOverTransport, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "OverGrpc" : "Objects"; });

}  // namespace
}  // namespace weir
