// SPDX-License-Identifier: Apache-2.0
// Training loops of several workers over server objects and over gRPC, the coordinator's part
// played by the test: what they train together is what one process trains alone.
#include <gmock/gmock.h>

#include <map>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "tests/integration/small_training.h"
#include "tests/support/hand_made_job.h"
#include "tests/support/relative_distance.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

// Where the workers of a job meet. Thread-safe.
class Meeting {
 public:
  Meeting(HandMadeJob& job, uint32_t workers) : job_(job), workers_(workers) {}

  void Initialised() {
    MutexLock lock(mutex_);
    job_.Run();
    initialised_ = true;
    changed_.NotifyAll();
  }
  bool initialised() {
    MutexLock lock(mutex_);
    return initialised_;
  }
  void AwaitInitialised() {
    MutexLock lock(mutex_);
    while (!initialised_) changed_.Wait(mutex_);
  }
  BarrierResult Enter(const std::string& name, const std::map<std::string, double>& values) {
    MutexLock lock(mutex_);
    BarrierResult& barrier = barriers_[name];
    ++barrier.members;
    for (const auto& [key, value] : values) barrier.sums[key] += value;
    changed_.NotifyAll();
    while (barrier.members < workers_) changed_.Wait(mutex_);
    return barrier;
  }
  DataRange Take(uint64_t examples, uint64_t total) {
    MutexLock lock(mutex_);
    DataRange range{0, taken_, std::min(total, taken_ + examples)};
    taken_ = range.end;
    return range;
  }

 private:
  HandMadeJob& job_;
  const uint32_t workers_;
  Mutex mutex_;
  CondVar changed_;
  bool initialised_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, BarrierResult> barriers_ ABSL_GUARDED_BY(mutex_);
};

class MeetingSession final : public JobSession {
 public:
  MeetingSession(Meeting& meeting, uint32_t rank, uint32_t workers)
      : meeting_(meeting), rank_(rank), workers_(workers) {}

  JobInfo Info() const override {
    JobInfo info;
    info.attempt = 1;
    info.member = true;
    info.rank = rank_;
    info.servers = 2;
    for (uint32_t rank = 0; rank < workers_; ++rank) info.members.push_back({rank, 0});
    info.initialiser = rank_ == 0;
    info.state = meeting_.initialised() ? JobState::kRunning : JobState::kInitialising;
    info.resume_group_steps = {0, 0};
    return info;
  }
  absl::Status Declare(const Declaration&) override { return absl::OkStatus(); }
  absl::StatusOr<JobInfo> WaitUntilReady(absl::Duration) override {
    if (rank_ != 0) meeting_.AwaitInitialised();
    return Info();
  }
  absl::Status ReportInitialised() override {
    meeting_.Initialised();
    return absl::OkStatus();
  }
  absl::Status WaitForOtherAttempt(uint64_t, absl::Duration) override {
    return absl::AbortedError("nothing is rolled back here");
  }
  absl::StatusOr<BarrierResult> Barrier(const std::string& name,
                                        const std::map<std::string, double>& values,
                                        const BarrierOptions&) override {
    return meeting_.Enter(name, values);
  }
  absl::StatusOr<TakenRanges> TakeRanges(uint64_t examples, absl::Duration) override {
    TakenRanges taken;
    const DataRange range = meeting_.Take(examples, 200);
    taken.end_of_data = range.first == range.end;
    if (!taken.end_of_data) taken.ranges.push_back(range);
    return taken;
  }
  void ReportProgress(const Progress&) override {}
  absl::StatusOr<std::string> SaveCheckpoint(const std::map<std::string, double>&) override {
    return absl::UnimplementedError("no checkpoints here");
  }
  absl::Status Leave(bool, const std::string&) override { return absl::OkStatus(); }

 private:
  Meeting& meeting_;
  const uint32_t rank_;
  const uint32_t workers_;
};

v1::Optimizer Momentum() {
  v1::Optimizer optimizer;
  optimizer.mutable_learning_rate()->set_base(0.1);
  optimizer.mutable_sgd()->set_momentum(0.9);
  return optimizer;
}

v1::JobSpec Job(uint64_t global_batch) {
  v1::JobSpec spec = SmallJob("several", Momentum());
  spec.mutable_data()->mutable_batch()->set_global(global_batch);
  return spec;
}

// Over gRPC or over the server objects themselves.
class SeveralWorkersTraining : public testing::TestWithParam<bool> {
 protected:
  static std::vector<absl::StatusOr<Trained>> Train(v1::JobSpec spec, uint32_t workers) {
    spec.set_workers(workers);
    HandMadeJob::Options options;
    options.declaration = (*SmallRunner(spec))->declaration();
    options.regime = spec.regime().kind();
    options.deterministic = spec.deterministic();
    options.workers = workers;
    options.servers = 2;
    options.over_grpc = GetParam();
    HandMadeJob job(options);
    Meeting meeting(job, workers);
    std::vector<absl::StatusOr<Trained>> results(workers, absl::UnknownError("not run"));
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < workers; ++rank) {
      threads.emplace_back([&, rank] {
        MeetingSession session(meeting, rank, workers);
        results[rank] = TrainSmall(spec, session, job.client(rank));
      });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }

  // What the workers hold at the end; all must hold the same.
  static std::vector<float> TrainTogether(const v1::JobSpec& spec, uint32_t workers) {
    const std::vector<absl::StatusOr<Trained>> results = Train(spec, workers);
    for (const auto& result : results) {
      EXPECT_THAT(result, IsOk());
      if (!result.ok()) return {};
      EXPECT_EQ(result->values, results[0]->values);
      EXPECT_EQ(result->summary.test_accuracy, results[0]->summary.test_accuracy);
    }
    return results[0]->values;
  }
};

TEST_P(SeveralWorkersTraining, OneWorkerEqualsALocalJobBitForBitInBothRegimes) {
  v1::JobSpec spec = Job(16);
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained local, TrainLocally(spec));
  EXPECT_EQ(TrainTogether(spec, 1), local.values);
  spec.mutable_regime()->set_kind(v1::REGIME_ASYNC);
  spec.mutable_length()->set_epochs(1);
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained async, TrainLocally(spec));
  EXPECT_EQ(TrainTogether(spec, 1), async.values);
}

// 200 examples in batches of 16: the last step of an epoch has 8, 4 for each.
TEST_P(SeveralWorkersTraining, TwoInSyncEqualOneProcessWithTwiceTheBatch) {
  const v1::JobSpec spec = Job(16);
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained alone, TrainLocally(spec));
  EXPECT_LE(RelativeDistance(TrainTogether(spec, 2), alone.values), kEqual);
}

// Batches of 15 are 8 and 7; the last step of an epoch has 5: 3 and 2. The mean is weighted by
// examples.
TEST_P(SeveralWorkersTraining, TwoInSyncEqualOneProcessAlsoWithUnequalBatches) {
  const v1::JobSpec spec = Job(15);
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained alone, TrainLocally(spec));
  EXPECT_LE(RelativeDistance(TrainTogether(spec, 2), alone.values), kEqual);
}

// Batches of 3 leave nothing for the fourth worker: it counts as absent.
TEST_P(SeveralWorkersTraining, AWorkerWithoutExamplesTakesPartInTheStep) {
  const v1::JobSpec spec = Job(3);
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained alone, TrainLocally(spec));
  EXPECT_LE(RelativeDistance(TrainTogether(spec, 4), alone.values), kEqual);
}

TEST_P(SeveralWorkersTraining, TwoDeterministicRunsAreEqualBitForBit) {
  v1::JobSpec spec = Job(48);
  spec.set_deterministic(true);
  const std::vector<float> first = TrainTogether(spec, 3);
  EXPECT_FALSE(first.empty());
  EXPECT_EQ(TrainTogether(spec, 3), first);
}

TEST_P(SeveralWorkersTraining, BatchNormStatisticsAreAveragedForTheEvaluation) {
  v1::JobSpec spec = Job(32);
  spec.mutable_model()->set_builtin("resnet");
  *spec.mutable_model()->mutable_options() = {};
  (*spec.mutable_model()->mutable_options())["width"] = "4";
  const std::vector<absl::StatusOr<Trained>> results = Train(spec, 2);
  for (const auto& result : results) {
    WEIR_ASSERT_OK(result);
    EXPECT_GT(result->summary.test_accuracy, 0.9);
  }
  // Weights are equal; statistics stay each replica's own.
  EXPECT_NE(results[0]->values, results[1]->values);
}

INSTANTIATE_TEST_SUITE_P(Servers, SeveralWorkersTraining, testing::Bool(),
                         [](const auto& info) { return info.param ? "OverGrpc" : "InProcess"; });

}  // namespace
}  // namespace weir
