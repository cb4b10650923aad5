// SPDX-License-Identifier: Apache-2.0
#include "worker/source_input.h"

#include <gmock/gmock.h>

#include <set>

#include "common/mutex.h"
#include "tests/support/eventually.h"
#include "tests/support/hasty_clock.h"
#include "tests/support/log_capture.h"
#include "tests/support/manual_executor.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

// Batch n has n examples, from 0, up to `size` of them. Calls may be held, each until it is let go.
class CountedSource final : public BatchSource {
 public:
  explicit CountedSource(uint64_t size = ~uint64_t{0}) : size_(size) {}

  absl::StatusOr<ReplicaBatch> Next() override {
    MutexLock lock(mutex_);
    const uint64_t call = calls_++;
    while (held_.count(call) > 0 && (!stopped_ || deaf_)) changed_.Wait(mutex_);
    if (call == fails_at_) return absl::InternalError("the callable: out of memory");
    if (call >= size_) return absl::OutOfRangeError("the source has ended");
    return ReplicaBatch(call, nullptr);
  }
  void Stop() override {
    MutexLock lock(mutex_);
    stopped_ = true;
    changed_.NotifyAll();
  }

  void Hold(uint64_t call, bool deaf = false) {
    MutexLock lock(mutex_);
    held_.insert(call);
    deaf_ = deaf;
  }
  void LetGo(uint64_t call) {
    MutexLock lock(mutex_);
    held_.erase(call);
    changed_.NotifyAll();
  }
  void FailAt(uint64_t call) { fails_at_ = call; }
  uint64_t calls() const {
    MutexLock lock(mutex_);
    return calls_;
  }

 private:
  const uint64_t size_;
  uint64_t fails_at_ = ~uint64_t{0};
  mutable Mutex mutex_;
  CondVar changed_;
  uint64_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool deaf_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<uint64_t> held_ ABSL_GUARDED_BY(mutex_);
};

// Nobody's patience ends.
const Clock& StillClock() {
  static const FakeClock clock;
  return clock;
}

SourcePipeline::Options Prefetch(uint32_t batches) {
  SourcePipeline::Options options;
  options.prefetch = batches;
  options.clock = &StillClock();
  return options;
}

absl::Status GoOn() {
  return absl::OkStatus();
}

uint64_t Take(SourcePipeline& pipeline) {
  const absl::StatusOr<ReplicaBatch> batch = pipeline.Take(GoOn);
  EXPECT_THAT(batch, IsOk());
  return batch.ok() ? batch->examples : ~uint64_t{0};
}

TEST(SourcePipeline, BatchesComeInTheOrderOfTheCalls) {
  SourcePipeline pipeline(std::make_shared<CountedSource>(), Prefetch(3));
  for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(Take(pipeline), i);
}

TEST(SourcePipeline, CallsAheadAreAsManyAsBatchesMayWait) {
  const auto source = std::make_shared<CountedSource>();
  // The fourth would block, were it made.
  source->Hold(3);
  SourcePipeline pipeline(source, Prefetch(3));
  EXPECT_TRUE(Eventually([&] { return source->calls() == 3; }));
  EXPECT_EQ(Take(pipeline), 0u);
  EXPECT_TRUE(Eventually([&] { return source->calls() == 4; }));
  EXPECT_EQ(Take(pipeline), 1u);
  EXPECT_EQ(Take(pipeline), 2u);
  EXPECT_EQ(source->calls(), 4u);
}

TEST(SourcePipeline, WithoutPrefetchACallIsMadeWhenItsBatchIsAskedFor) {
  const auto source = std::make_shared<CountedSource>();
  SourcePipeline pipeline(source, Prefetch(0));
  for (uint64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(source->calls(), i);
    EXPECT_EQ(Take(pipeline), i);
  }
}

TEST(SourcePipeline, OfSeveralThreadsASlowCallDoesNotHoldUpTheOthers) {
  const auto source = std::make_shared<CountedSource>();
  source->Hold(0);
  SourcePipeline::Options options = Prefetch(2);
  options.threads = 2;
  SourcePipeline pipeline(source, options);
  EXPECT_EQ(Take(pipeline), 1u);
  EXPECT_EQ(Take(pipeline), 2u);
  source->LetGo(0);
  uint64_t taken = 3;
  for (int i = 0; i < 10000 && taken != 0; ++i) taken = Take(pipeline);
  EXPECT_EQ(taken, 0u);
}

// The call that is held is the first that the source has seen, but perhaps the second that began:
// then one batch is before it.
TEST(SourcePipeline, OnRequestBatchesOfSeveralThreadsAreInTheOrderOfTheCalls) {
  const auto source = std::make_shared<CountedSource>();
  source->Hold(0);
  SourcePipeline::Options options = Prefetch(3);
  options.threads = 2;
  options.ordered = true;
  SourcePipeline pipeline(source, options);
  EXPECT_TRUE(Eventually([&] { return source->calls() == 3; }));
  int asked = 0;
  const auto once = [&] { return ++asked < 2 ? absl::OkStatus() : absl::CancelledError("not"); };
  int taken = 0;
  while (taken < 3 && pipeline.Take(once).ok()) ++taken;
  EXPECT_LE(taken, 1);
  source->LetGo(0);
  EXPECT_EQ(Take(pipeline), 0u);
}

TEST(SourcePipeline, ASourceHasEndedWhenAllOfItsBatchesAreTaken) {
  SourcePipeline::Options options = Prefetch(8);
  options.threads = 3;
  SourcePipeline pipeline(std::make_shared<CountedSource>(5), options);
  uint64_t sum = 0;
  for (int i = 0; i < 5; ++i) sum += Take(pipeline);
  EXPECT_EQ(sum, 0u + 1 + 2 + 3 + 4);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(pipeline.Take(GoOn).status(),
                HasStatus(absl::StatusCode::kOutOfRange, "the source has ended"));
  }
}

TEST(SourcePipeline, ABlockedCallIsToldToStop) {
  const auto source = std::make_shared<CountedSource>();
  source->Hold(0);
  {
    SourcePipeline pipeline(source, Prefetch(1));
    EXPECT_TRUE(Eventually([&] { return source->calls() == 1; }));
  }  // returns
}

TEST(SourcePipeline, ACallThatDoesNotListenIsLeftBehindAndSaid) {
  const auto source = std::make_shared<CountedSource>();
  source->Hold(0, /*deaf=*/true);
  SourcePipeline::Options options = Prefetch(1);
  const HastyClock hasty;
  options.clock = &hasty;
  options.patience = absl::Seconds(1);
  LogCapture log;
  {
    SourcePipeline pipeline(source, options);
    EXPECT_TRUE(Eventually([&] { return source->calls() == 1; }));
  }
  EXPECT_THAT(log.LinesWith("let it look at its StopToken"), SizeIs(1));
  source->LetGo(0);
  EXPECT_TRUE(Eventually([&] { return source.use_count() == 1; }));
}

SourceInput Input(const std::vector<std::shared_ptr<CountedSource>>& sources,
                  const PipelinePlace& place) {
  std::vector<std::unique_ptr<SourcePipeline>> pipelines;
  for (const auto& source : sources) {
    pipelines.push_back(std::make_unique<SourcePipeline>(source, Prefetch(1)));
  }
  return SourceInput(std::move(pipelines), place);
}

std::vector<uint64_t> Take(SourceInput& input) {
  const auto batches = input.Take({});
  EXPECT_THAT(batches, IsOk());
  std::vector<uint64_t> taken;
  if (!batches.ok()) return taken;
  for (const ReplicaBatch& batch : *batches) taken.push_back(batch.examples);
  return taken;
}

TEST(SourceInput, ReplicasTakeFromTheirWorkersPipelineInTurn) {
  SourceInput input = Input({std::make_shared<CountedSource>()}, {0, 1, 3});
  EXPECT_THAT(Take(input), ElementsAre(0, 1, 2));
  EXPECT_THAT(Take(input), ElementsAre(3, 4, 5));
}

TEST(SourceInput, WithAPipelineForEachReplicaTheyTakeFromTheirOwn) {
  SourceInput input =
      Input({std::make_shared<CountedSource>(), std::make_shared<CountedSource>()}, {0, 2, 2});
  EXPECT_THAT(Take(input), ElementsAre(0, 0));
  EXPECT_THAT(Take(input), ElementsAre(1, 1));
}

TEST(SourceInput, WhatEndsAndWhatFailsNamesPipelineAndReplica) {
  const auto ends = std::make_shared<CountedSource>(0);
  const auto fails = std::make_shared<CountedSource>();
  fails->FailAt(1);
  SourceInput first = Input({std::make_shared<CountedSource>(), ends}, {2, 2, 2});
  InputRequest request;
  request.first_replica = 2;
  EXPECT_THAT(first.Take(request).status(),
              HasStatus(absl::StatusCode::kOutOfRange,
                        "input pipeline 3, replica 3: the source has ended"));
  SourceInput second = Input({fails}, {1, 1, 2});
  EXPECT_THAT(second.Take(request).status(),
              HasStatus(absl::StatusCode::kInternal,
                        "input pipeline 1, replica 3: the callable: out of memory"));
}

TEST(SourceInput, AWaitForABatchEndsAsWhoeverIsAskedSays) {
  const auto source = std::make_shared<CountedSource>();
  source->Hold(0);
  SourceInput input = Input({source}, {0, 1, 1});
  InputRequest request;
  request.go_on = [] { return absl::AbortedError("rolled back"); };
  EXPECT_THAT(input.Take(request).status(), HasStatus(absl::StatusCode::kAborted, "rolled back"));
}

}  // namespace
}  // namespace weir
