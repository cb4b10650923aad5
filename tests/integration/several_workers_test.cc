// SPDX-License-Identifier: Apache-2.0
// Several clients of one job, over server objects and over gRPC.
#include <gmock/gmock.h>

#include <cmath>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "rpc/errors.h"
#include "tests/support/client_kind.h"
#include "tests/support/client_values.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SeveralWorkers : public ::testing::TestWithParam<bool> {
 protected:
  HandMadeJob::Options Options(v1::Regime regime, size_t workers, size_t servers = 2) {
    HandMadeJob::Options options;
    options.declaration = SgdOver({3, 5});
    options.regime = regime;
    options.workers = workers;
    options.servers = servers;
    options.over_grpc = GetParam();
    return options;
  }

  void Start(const HandMadeJob::Options& options, float value = 0) {
    declaration_ = options.declaration;
    job_ = std::make_unique<HandMadeJob>(options);
    WEIR_ASSERT_OK(job_->client(0).Assign(PushItems(Filled(value))));
    job_->Run();
  }

  Values Filled(float value) const { return weir::Filled(declaration_, value); }

  Declaration declaration_;
  std::unique_ptr<HandMadeJob> job_;
};

// (1 * 1 + 0.5 * 4) / (1 + 0.5) = 2, taken from 10 at a rate of 1.
TEST_P(SeveralWorkers, SyncStepAppliesTheWeightedMean) {
  Start(Options(v1::REGIME_SYNC, 2), 10);
  Values first = Filled(0);
  Values second = Filled(0);
  const Values ones = Filled(1);
  const Values fours = Filled(4);
  std::thread other([&] {
    WEIR_EXPECT_OK(job_->client(1).PushPull(PushItems(fours), PullItems(second), AtStep(0, 0.5)));
  });
  WEIR_EXPECT_OK(job_->client(0).PushPull(PushItems(ones), PullItems(first), AtStep(0, 1)));
  other.join();
  EXPECT_THAT(first, Each(Each(8)));
  EXPECT_EQ(first, second);
}

TEST_P(SeveralWorkers, SyncStepWaitsAndItsDeadlineNamesTheMissingWorker) {
  Start(Options(v1::REGIME_SYNC, 2));
  const Values ones = Filled(1);
  Values into = Filled(0);
  PushOptions options = AtStep(0);
  options.timeout = absl::Milliseconds(300);
  EXPECT_THAT(job_->client(0).PushPull(PushItems(ones), PullItems(into), options),
              HasStatus(absl::StatusCode::kDeadlineExceeded,
                        AllOf(HasSubstr("server ps-"), HasSubstr("0000000000000002"))));
}

TEST_P(SeveralWorkers, RemovedWorkerFreesTheStepOfTheOthers) {
  Start(Options(v1::REGIME_SYNC, 2), 5);
  const Values ones = Filled(1);
  Values into = Filled(0);
  const auto pending = job_->client(0).StartPushPull(PushItems(ones), PullItems(into), AtStep(0));
  job_->Remove(1);
  WEIR_ASSERT_OK(pending->Wait());
  EXPECT_THAT(into, Each(Each(4)));
  EXPECT_TRUE(IsNotAMember(job_->client(1).Push(PushItems(ones), AtStep(0)).status()));
  WEIR_EXPECT_OK(job_->client(0).Push(PushItems(ones), AtStep(1)));
}

TEST_P(SeveralWorkers, RestartedServerEndsCallsWithAbortedUntilTheAttemptIsAdopted) {
  Start(Options(v1::REGIME_ASYNC, 1), 5);
  job_->Restart(0);
  const Values ones = Filled(1);
  const auto pending = job_->client(0).StartPushPull(PushItems(ones), {}, AtStep(0));
  job_->RollBack();
  EXPECT_EQ(pending->Wait().status().code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(IsStaleAttempt(job_->client(0).Push(PushItems(ones), AtStep(1)).status()));
  job_->Adopt(0);
  WEIR_ASSERT_OK(job_->client(0).Assign(PushItems(Filled(7))));
  job_->Run();
  WEIR_ASSERT_OK(job_->client(0).Push(PushItems(ones), AtStep(0)));
  EXPECT_THAT(PullAll(job_->client(0), declaration_), Each(Each(6)));
}

TEST_P(SeveralWorkers, ReaderIsNoMember) {
  Start(Options(v1::REGIME_SYNC, 2), 5);
  const auto reader = job_->NewReader();
  EXPECT_THAT(PullAll(*reader, declaration_), Each(Each(5)));
  const Values ones = Filled(1);
  EXPECT_FALSE(reader->Push(PushItems(ones), AtStep(0)).ok());
  std::thread other(
      [&] { WEIR_EXPECT_OK(job_->client(1).PushPull(PushItems(ones), {}, AtStep(0))); });
  Values into = Filled(0);
  WEIR_EXPECT_OK(job_->client(0).PushPull(PushItems(ones), PullItems(into), AtStep(0)));
  other.join();
  EXPECT_THAT(into, Each(Each(4)));  // nobody waited for the reader
}

// 4 clients, integer gradients, a rate of 1, and a network that loses, doubles and delays: the
// weights are the exact sum of what was acknowledged.
TEST_P(SeveralWorkers, StormOfPushesCountsEachOnce) {
  constexpr size_t kWorkers = 4;
  constexpr uint64_t kPushes = 60;
  HandMadeJob::Options options = Options(v1::REGIME_ASYNC, kWorkers, 3);
  options.declaration = SgdOver({20000, 7, 300});
  options.shard_bytes = 4096;
  options.chunk_bytes = 1024;
  options.network = {.lose_request = 0.05,
                     .lose_answer = 0.05,
                     .duplicate = 0.1,
                     .delay = 0.2,
                     .max_delay = absl::Milliseconds(3),
                     .seed = 11};
  if (GetParam()) options.network = {};  // gRPC's own delays
  Start(options);
  std::vector<Values> acknowledged(kWorkers, Filled(0));
  std::vector<std::thread> threads;
  for (size_t worker = 0; worker < kWorkers; ++worker) {
    threads.emplace_back([&, worker] {
      std::mt19937_64 random(worker);
      for (uint64_t step = 0; step < kPushes; ++step) {
        Values gradients = Filled(0);
        for (std::vector<float>& gradient : gradients) {
          for (float& value : gradient) value = static_cast<float>(random() % 7) - 3;
        }
        const auto pushed = job_->client(worker).Push(PushItems(gradients), AtStep(step));
        ASSERT_THAT(pushed, IsOk());
        for (size_t v = 0; v < gradients.size(); ++v) {
          for (size_t i = 0; i < gradients[v].size(); ++i) {
            acknowledged[worker][v][i] += gradients[v][i];
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Values expected = Filled(0);
  for (const Values& values : acknowledged) {
    for (size_t v = 0; v < values.size(); ++v) {
      for (size_t i = 0; i < values[v].size(); ++i) expected[v][i] -= values[v][i];
    }
  }
  EXPECT_EQ(PullAll(job_->client(0), declaration_), expected);
}

TEST_P(SeveralWorkers, StalenessCountsTheUpdatesOfOthers) {
  Start(Options(v1::REGIME_ASYNC, 2, 1));
  const Values ones = Filled(1);
  Values into = Filled(0);
  WEIR_ASSERT_OK(job_->client(0).PushPull(PushItems(ones), PullItems(into), AtStep(0)));
  for (uint64_t step = 0; step < 3; ++step) {
    WEIR_ASSERT_OK(job_->client(1).Push(PushItems(ones), AtStep(step)));
  }
  WEIR_ASSERT_OK_AND_ASSIGN(const PushStats stats,
                            job_->client(0).Push(PushItems(ones), AtStep(1)));
  EXPECT_EQ(stats.staleness, 3u);
}

INSTANTIATE_TEST_SUITE_P(Transports, SeveralWorkers, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "OverGrpc" : "Objects"; });

// The same 30 steps of Adam, in this process and over a server on the network.
TEST(LocalAndRemote, AreEqualBitForBit) {
  Declaration declaration = SgdOver({777, 10});
  declaration.groups[0].optimizer = Adam{};
  declaration.groups[0].learning_rate = {0.05, 100, Schedule::Cosine{2000, 0.001}};
  const auto run = [&](ParameterClient& client) {
    Values gradients = {std::vector<float>(777), std::vector<float>(10)};
    Values into = gradients;
    for (uint64_t step = 0; step < 30; ++step) {
      for (std::vector<float>& gradient : gradients) {
        for (size_t i = 0; i < gradient.size(); ++i) {
          gradient[i] = std::sin(static_cast<float>(i + 13 * step));
        }
      }
      PushOptions options;
      options.step = options.group_step = step;
      options.examples = 32;
      WEIR_EXPECT_OK(client.PushPull(PushItems(gradients), PullItems(into), options));
    }
    return into;
  };
  const Values first = {std::vector<float>(777, 0.25f), std::vector<float>(10, -1.0f)};
  WEIR_ASSERT_OK_AND_ASSIGN(Job local, OpenEmbedded({}, declaration));
  WEIR_ASSERT_OK(local.parameters->Assign(PushItems(first)));
  WEIR_ASSERT_OK(local.session->ReportInitialised());
  HandMadeJob::Options remote_options;
  remote_options.declaration = declaration;
  remote_options.servers = 2;
  remote_options.over_grpc = true;
  HandMadeJob remote(remote_options);
  WEIR_ASSERT_OK(remote.client(0).Assign(PushItems(first)));
  remote.Run();
  EXPECT_EQ(run(*local.parameters), run(remote.client(0)));
}

}  // namespace
}  // namespace weir
