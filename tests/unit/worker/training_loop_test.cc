// SPDX-License-Identifier: Apache-2.0
#include "worker/training_loop.h"

#include <gmock/gmock.h>

#include <cstring>
#include <fstream>
#include <functional>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "rpc/errors.h"
#include "tests/support/log_capture.h"
#include "tests/support/manual_executor.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"
#include "worker/training_steps.h"

namespace weir {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using Calls = std::vector<std::string>;

// A membership of one, whose calls are written down.
class FakeSession final : public JobSession {
 public:
  explicit FakeSession(Calls& calls) : calls_(calls) {
    info.member = true;
    info.members = {{0, 0}};
    info.servers = 2;
    info.state = JobState::kInitialising;
    info.initialiser = true;
    info.resume_group_steps = {0, 0};
  }

  JobInfo Info() const override { return info; }
  absl::Status Declare(const Declaration&) override {
    calls_.push_back("declare");
    return declared;
  }
  absl::StatusOr<JobInfo> WaitUntilReady(absl::Duration timeout) override {
    if (not_ready) WEIR_RETURN_IF_ERROR(not_ready(timeout));
    return info;
  }
  absl::Status ReportInitialised() override {
    calls_.push_back("initialised");
    info.state = JobState::kRunning;
    return absl::OkStatus();
  }
  absl::Status WaitForOtherAttempt(uint64_t attempt, absl::Duration timeout) override {
    if (no_other_attempt) return no_other_attempt(timeout);
    if (info.attempt != attempt) return absl::OkStatus();
    return absl::AbortedError("no longer a member");
  }
  absl::StatusOr<BarrierResult> Barrier(const std::string& name,
                                        const std::map<std::string, double>& values,
                                        const BarrierOptions& options) override {
    calls_.push_back("barrier " + name);
    barrier_steps.push_back(options.step);
    if (at_barrier) at_barrier(name);
    BarrierResult result{values, static_cast<uint32_t>(info.members.size())};
    for (auto& [key, sum] : result.sums) sum *= alike;
    return result;
  }
  absl::StatusOr<TakenRanges> TakeRanges(uint64_t, absl::Duration) override {
    if (dry > 0) {
      --dry;
      return TakenRanges{{}, false};
    }
    if (ranges.empty()) return TakenRanges{{}, true};
    TakenRanges taken{{ranges.front()}, false};
    ranges.erase(ranges.begin());
    return taken;
  }
  void ReportProgress(const Progress& progress) override { reported.push_back(progress); }
  absl::StatusOr<std::string> SaveCheckpoint(const std::map<std::string, double>&) override {
    calls_.push_back("save");
    if (!saved.ok()) return saved;
    return std::string("checkpoint-1");
  }
  absl::Status Leave(bool finished, const std::string& reason) override {
    calls_.push_back(absl::StrCat("leave ", finished ? "finished" : reason));
    return absl::OkStatus();
  }

  JobInfo info;
  absl::Status declared;
  absl::Status saved;
  std::function<absl::Status(absl::Duration)> not_ready;  // null: it is ready
  std::function<absl::Status(absl::Duration)> no_other_attempt;
  std::function<void(const std::string&)> at_barrier;
  double alike = 1;  // members that bring to a barrier what this one brings
  std::vector<DataRange> ranges;
  int dry = 0;  // requests for ranges that find none for now
  std::vector<Progress> reported;
  std::vector<uint64_t> barrier_steps;

 private:
  Calls& calls_;
};

// Keeps one weight, from which each gradient is taken.
class FakeClient final : public ParameterClient {
 public:
  explicit FakeClient(Calls& calls) : calls_(calls) {}

  absl::Status Assign(absl::Span<const PushItem> values) override {
    calls_.push_back("assign");
    std::memcpy(&weight, values[0].data, sizeof(weight));
    return absl::OkStatus();
  }
  absl::StatusOr<PullStats> Pull(absl::Span<const PullItem> into,
                                 const PullOptions& options) override {
    calls_.push_back(absl::StrCat("pull ", options.step));
    std::memcpy(into[0].data, &weight, sizeof(weight));
    for (const PullItem& item : into) {
      if (item.variable == 1) std::memcpy(item.data, &state, sizeof(state));
    }
    PullStats stats;
    stats.slowest_step = slowest_step;
    stats.group_steps = group_steps;
    return stats;
  }
  absl::StatusOr<PushStats> Push(absl::Span<const PushItem>, const PushOptions& options) override {
    calls_.push_back(options.finished ? absl::StrCat("finished ", options.group)
                                      : absl::StrCat("state ", options.step));
    return PushStats{};
  }
  absl::StatusOr<PushStats> PushPull(absl::Span<const PushItem> gradients,
                                     absl::Span<const PullItem> into,
                                     const PushOptions& options) override {
    if (before_push) {
      const absl::Status status = before_push(options);
      if (!status.ok()) return status;
    }
    pushes.push_back(options);
    absent.push_back(gradients[0].data == nullptr);
    if (!absent.back()) weight -= *static_cast<const float*>(gradients[0].data);
    std::memcpy(into[0].data, &weight, sizeof(weight));
    PushStats stats;
    stats.staleness = 3;
    if (answer) answer(options, stats);
    return stats;
  }
  std::unique_ptr<PendingPush> StartPushPull(absl::Span<const PushItem>, absl::Span<const PullItem>,
                                             const PushOptions&) override {
    return nullptr;
  }
  absl::StatusOr<ReduceStats> Reduce(absl::Span<const std::byte>, const ReduceOptions&,
                                     std::vector<std::byte>&) override {
    return absl::UnimplementedError("this loop calls no collective");
  }

  float weight = 0;
  // What a pull tells.
  std::vector<uint64_t> group_steps;
  uint64_t slowest_step = 0;
  float state = 0;  // as the servers have it
  std::vector<PushOptions> pushes;
  std::vector<bool> absent;
  std::function<absl::Status(const PushOptions&)> before_push;
  std::function<void(const PushOptions&, PushStats&)> answer;

 private:
  Calls& calls_;
};

// One parameter whose gradient is always 1, and a counter of steps as state.
class FakeRunner final : public ReplicaRunner {
 public:
  FakeRunner() {
    declaration_.variables.resize(2);
    declaration_.variables[0].name = "weight";
    declaration_.variables[1].name = "counter";
    declaration_.variables[1].group = 0;
    declaration_.groups.resize(1);
    declaration_.groups[0].name = "sgd";
  }

  uint32_t replicas() const override { return 1; }
  const Declaration& declaration() const override { return declaration_; }
  absl::Status Reset() override {
    weight = 100;
    return absl::OkStatus();
  }
  std::vector<PullItem> Storage() override {
    return {{0, &weight, sizeof(weight)}, {1, &counter, sizeof(counter)}};
  }
  void Land(absl::Span<const PullItem>) override {}
  std::vector<PushItem> State() override { return {{1, &counter, sizeof(counter)}}; }
  void KeepState() override { kept_ = counter; }
  void RestoreState() override { counter = kept_; }
  absl::StatusOr<Metrics> Train(const ReplicaStep& step, absl::Span<const ImageBatch> batches,
                                GroupUpdates& updates) override {
    steps.push_back(step);
    trained.push_back(batches[0].examples);
    if (forgets_to_step) return Metrics();
    if (!failures.empty()) {
      const absl::Status failure = failures.front();
      failures.erase(failures.begin());
      return failure;
    }
    const float gradient = 1;
    const bool absent = batches[0].examples == 0;
    const PushItem push{0, absent ? nullptr : &gradient, absent ? 0 : sizeof(gradient)};
    const PullItem pull{0, &weight, sizeof(weight)};
    for (int i = 0; i < updates_a_step; ++i) {
      const absl::Status status =
          updates.Update(1, {push}, {pull}, static_cast<double>(batches[0].examples));
      if (!status.ok()) return status;
    }
    if (!late_failures.empty()) {
      const absl::Status failure = late_failures.front();
      late_failures.erase(late_failures.begin());
      return failure;
    }
    counter += 1;
    return Metrics{{"loss", weight}};
  }
  absl::Status Loop(TrainingSteps& steps) override {
    if (loop) {
      loop(steps);
    } else {
      while (steps.Next()) steps.Log(steps.Step());
    }
    return loop_status;
  }
  absl::StatusOr<Metrics> Evaluate(absl::Span<const ImageBatch>) override {
    evaluated.push_back(counter);
    counter = -1;
    return Metrics{{"accuracy", 0.5}};
  }

  float weight = 0;
  float counter = 0;
  void AggregateStateBy(Aggregation aggregation) {
    declaration_.variables[1].aggregation = aggregation;
  }

  bool forgets_to_step = false;
  int updates_a_step = 1;
  std::vector<uint64_t> trained;
  std::vector<ReplicaStep> steps;
  std::vector<absl::Status> failures;        // of the next steps, before they push
  std::vector<absl::Status> late_failures;   // after they have
  std::function<void(TrainingSteps&)> loop;  // of the model's own
  absl::Status loop_status;
  std::vector<float> evaluated;  // states

 private:
  float kept_ = 0;
  Declaration declaration_;
};

class TrainingLoopTest : public testing::Test {
 protected:
  TrainingLoopTest() {
    dataset_.height = dataset_.width = 1;
    dataset_.pixels.assign(20, 1);
    dataset_.labels.assign(20, 0);
    spec_.set_name("job");
    spec_.set_train_examples(20);
    spec_.set_workers(1);
    spec_.mutable_data()->mutable_batch()->set_global(8);
    spec_.mutable_regime()->set_kind(v1::REGIME_SYNC);
    spec_.mutable_length()->set_epochs(1);  // 8, 8 and 4 examples
    spec_.mutable_checkpoint()->set_at_end(true);
    spec_.set_step_timeout_ms(60000);
    spec_.set_log_every(2);
  }

  absl::StatusOr<RunSummary> Run() {
    BatchMaker train(dataset_, {});
    BatchMaker test(dataset_, {});
    ProgressLog::Options options;
    options.log_every = spec_.log_every();
    options.train_examples = spec_.train_examples();
    options.metrics_file = metrics_file_;
    auto log = ProgressLog::Create(options, session_, clock_);
    return TrainingLoop(TrainingParts{spec_, session_, client_, runner_, train, test,
                                      dataset_.examples(), **log, clock_, interrupted_})
        .Run();
  }

  Calls calls_;
  FakeClock clock_;
  FakeSession session_{calls_};
  FakeClient client_{calls_};
  FakeRunner runner_;
  ImageDataset dataset_;
  v1::JobSpec spec_;
  std::string metrics_file_;  // empty: none
  std::atomic<bool> interrupted_{false};
};

TEST_F(TrainingLoopTest, AJobRunsFromItsDeclarationToItsEnd) {
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  EXPECT_THAT(calls_, ElementsAre("declare", "assign", "initialised", "pull 0", "state 3",
                                  "barrier end", "save", "barrier saved", "pull 3",
                                  "barrier evaluate-final", "leave finished"));
  EXPECT_EQ(summary.steps, 3u);
  EXPECT_EQ(summary.examples, 20u);
  EXPECT_EQ(summary.test_accuracy, 0.5);
  EXPECT_EQ(summary.checkpoint, "checkpoint-1");
  EXPECT_EQ(summary.servers, 2u);
  EXPECT_EQ(summary.regime, "sync");
  EXPECT_TRUE(summary.lead);
  EXPECT_EQ(client_.weight, 97);
}

TEST_F(TrainingLoopTest, APushSaysItsPlaceItsExamplesAndItsWeight) {
  WEIR_ASSERT_OK(Run());
  ASSERT_EQ(client_.pushes.size(), 3u);
  EXPECT_EQ(client_.pushes[2].step, 2u);
  EXPECT_EQ(client_.pushes[2].group_step, 2u);
  EXPECT_EQ(client_.pushes[2].examples, 4u);
  EXPECT_EQ(client_.pushes[2].consumed, 20u);
  EXPECT_EQ(client_.pushes[2].weight, 0.5);  // 4 of 8
}

TEST_F(TrainingLoopTest, AWorkerThatIsNotTheInitialiserOnlyPulls) {
  session_.info.initialiser = false;
  session_.info.state = JobState::kRunning;
  WEIR_ASSERT_OK(Run());
  EXPECT_THAT(calls_, Not(Contains("assign")));
}

TEST_F(TrainingLoopTest, ARollbackGoesOnFromTheStepOfTheNewAttempt) {
  spec_.mutable_length()->set_epochs(2);
  client_.before_push = [&](const PushOptions& options) -> absl::Status {
    if (options.step != 4 || session_.info.attempt > 0) return absl::OkStatus();
    session_.info.attempt = 1;
    session_.info.resume_step = 2;
    session_.info.resume_group_steps = {0, 2};
    session_.info.lost_steps = 2;
    client_.weight = 98;  // as it was after two steps
    return absl::AbortedError("rolled back");
  };
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  std::vector<uint64_t> steps;
  for (const PushOptions& push : client_.pushes) steps.push_back(push.step);
  EXPECT_THAT(steps, ElementsAre(0, 1, 2, 3, 2, 3, 4, 5));
  EXPECT_EQ(client_.weight, 94);
  EXPECT_EQ(summary.lost_steps, 2u);
}

TEST_F(TrainingLoopTest, WithoutACheckpointTheInitialiserAssignsItsFirstValuesAgain) {
  client_.before_push = [&](const PushOptions& options) -> absl::Status {
    if (options.step != 1 || session_.info.attempt > 0) return absl::OkStatus();
    session_.info.attempt = 1;
    session_.info.state = JobState::kInitialising;
    client_.weight = -1;
    return absl::AbortedError("rolled back");
  };
  WEIR_ASSERT_OK(Run());
  EXPECT_EQ(client_.weight, 97);
}

TEST_F(TrainingLoopTest, TheLogSaysWhatAnAttemptResumesFromAndWhatWasDamaged) {
  session_.info.initialiser = false;
  session_.info.state = JobState::kRunning;
  session_.info.attempt = 2;
  session_.info.checkpoint_id = "00000010-2";
  session_.info.resume_step = 1;
  session_.info.message = "resumed from 00000010-2 (step 1); 00000012-2 is damaged: 000001.sst";
  const LogCapture log;
  WEIR_ASSERT_OK(Run());
  EXPECT_THAT(log.LinesWith("attempt 2 resumes from 00000010-2 (step 1)"), ElementsAre(_));
  EXPECT_THAT(log.LinesWith("00000012-2 is damaged: 000001.sst"), ElementsAre(_));
}

TEST_F(TrainingLoopTest, AWorkerThatIsNoLongerAMemberGivesUp) {
  client_.before_push = [&](const PushOptions&) {
    session_.info.member = false;
    return absl::AbortedError("no longer a member");
  };
  EXPECT_THAT(Run().status(),
              HasStatus(absl::StatusCode::kAborted, HasSubstr("no longer a member")));
}

// 20 examples in steps of 1: in step 0 the first of two members takes the example.
TEST_F(TrainingLoopTest, AStepWithoutExamplesIsPushedAsAbsent) {
  spec_.mutable_data()->mutable_batch()->set_global(1);
  spec_.mutable_length()->set_steps(2);
  session_.info.initialiser = false;
  session_.info.state = JobState::kRunning;
  session_.info.members = {{0, 0}, {1, 0}};
  session_.info.rank = 1;
  // The fake's barrier sums this worker alone, so the evaluation never covers the test set.
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(client_.absent, ElementsAre(true, true));
  EXPECT_EQ(client_.pushes[0].weight, 0);
  EXPECT_THAT(runner_.trained, ElementsAre(0, 0));
}

// Ranks 0, 3 and 5, of which 5 joins with step 2.
TEST_F(TrainingLoopTest, AStepKnowsItsPlaceAmongTheReplicasInSync) {
  session_.info.rank = 3;
  session_.info.members = {{0, 0}, {3, 0}, {5, 2}};
  session_.info.initialiser = false;
  session_.info.state = JobState::kRunning;
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kUnavailable);  // as above
  ASSERT_EQ(runner_.steps.size(), 3u);
  EXPECT_EQ(runner_.steps[0].first_replica, 3u);
  EXPECT_EQ(runner_.steps[0].first_index, 1u);
  EXPECT_EQ(runner_.steps[1].replicas_in_sync, 2u);
  EXPECT_EQ(runner_.steps[2].replicas_in_sync, 3u);
  runner_.steps.clear();
  spec_.mutable_regime()->set_kind(v1::REGIME_ASYNC);
  session_.ranges = {{0, 0, 8}};
  (void)Run();
  EXPECT_EQ(runner_.steps[0].replicas_in_sync, 1u);
}

TEST_F(TrainingLoopTest, AJoinerStartsWithItsFirstStepAndTheGroupStepsOfThen) {
  session_.info.initialiser = false;
  session_.info.state = JobState::kRunning;
  session_.info.members = {{0, 2}};
  client_.group_steps = {0, 7};  // the group is not updated once a step
  WEIR_ASSERT_OK(Run());
  ASSERT_EQ(client_.pushes.size(), 1u);
  EXPECT_EQ(client_.pushes[0].step, 2u);
  EXPECT_EQ(client_.pushes[0].group_step, 7u);
  EXPECT_THAT(calls_, Contains("pull 2"));
}

// Positions 16 and 18 of 20 examples, an evaluation every 15: the others had theirs before this one
// came.
TEST_F(TrainingLoopTest, AJoinerDoesNotMakeUpForEvaluationsBeforeItsTime) {
  spec_.mutable_data()->mutable_batch()->set_global(2);
  spec_.mutable_evaluate()->mutable_every()->set_examples(15);
  session_.info.initialiser = false;
  session_.info.state = JobState::kRunning;
  session_.info.members = {{0, 8}};
  WEIR_ASSERT_OK(Run());
  EXPECT_EQ(client_.pushes.size(), 2u);
  EXPECT_THAT(calls_, Not(Contains("pull 9")));
}

// The job has ended when it comes: it brings nothing, but it is not left waiting for a step that
// nobody runs.
TEST_F(TrainingLoopTest, AJoinerWhoseFirstStepIsBehindTheEndMeetsTheOthersThere) {
  session_.info.initialiser = false;
  session_.info.state = JobState::kRunning;
  session_.info.members = {{0, 5}};
  WEIR_ASSERT_OK(Run());
  EXPECT_TRUE(client_.pushes.empty());
  EXPECT_THAT(calls_,
              AllOf(Contains("pull 3"), Contains("barrier end"), Contains("leave finished")));
}

TEST_F(TrainingLoopTest, BarriersSayTheStepsDoneInSyncOnly) {
  WEIR_ASSERT_OK(Run());
  EXPECT_THAT(session_.barrier_steps, ElementsAre(3, 3, 3));
  session_.barrier_steps.clear();
  spec_.mutable_regime()->set_kind(v1::REGIME_ASYNC);
  WEIR_ASSERT_OK(Run());
  EXPECT_THAT(session_.barrier_steps, ElementsAre(0, 0, 0));
}

// Rank 1 joins with step 3, behind the last one: the test set is divided without it.
TEST_F(TrainingLoopTest, AnEvaluationIsDividedAmongThoseThatHaveRunItsSteps) {
  session_.info.members = {{0, 0}, {1, 3}};
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  EXPECT_EQ(summary.test_accuracy, 0.5);
}

// Two steps in a turn of the loop, of which the second is logged; the job has three.
TEST_F(TrainingLoopTest, AModelsOwnLoopTakesTheStepsAndLearnsWhereTheyEnd) {
  spec_.set_log_every(1);
  std::vector<absl::Status> statuses;
  runner_.loop = [&](TrainingSteps& steps) {
    while (steps.Next()) {
      statuses.push_back(steps.Step().status());
      const absl::StatusOr<Metrics> second = steps.Step();
      statuses.push_back(second.status());
      steps.Log(second);
    }
  };
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  EXPECT_EQ(summary.steps, 3u);
  ASSERT_EQ(statuses.size(), 4u);
  EXPECT_EQ(statuses[3].code(), absl::StatusCode::kOutOfRange);
  std::vector<size_t> logged;
  for (const Progress& progress : session_.reported) logged.push_back(progress.metrics.size());
  EXPECT_THAT(logged, ElementsAre(0, 1, 0));
}

// The loop goes on stepping after an error, and ends as if it had looked.
TEST_F(TrainingLoopTest, AnErrorOfAStepSticksAndIsReportedWhateverTheLoopDoes) {
  client_.before_push = [&](const PushOptions& options) -> absl::Status {
    return options.step == 1 ? absl::InternalError("broken") : absl::OkStatus();
  };
  int turns = 0;
  runner_.loop = [&](TrainingSteps& steps) {
    while (steps.Next()) {
      ++turns;
      for (int i = 0; i < 3; ++i) (void)steps.Step();
    }
  };
  EXPECT_THAT(Run().status(), HasStatus(absl::StatusCode::kInternal, "broken"));
  EXPECT_EQ(turns, 1);
  EXPECT_EQ(client_.pushes.size(), 1u);
}

TEST_F(TrainingLoopTest, ALoopThatThrowsOrReturnsEarlyIsAnError) {
  runner_.loop = [](TrainingSteps& steps) {
    if (steps.Next()) (void)steps.Step();
  };
  EXPECT_THAT(Run().status(),
              HasStatus(absl::StatusCode::kFailedPrecondition,
                        "the model's Loop has returned after step 1: it goes on until Next is "
                        "false"));
  runner_.loop_status = absl::InternalError("the model's Loop: it threw");
  EXPECT_EQ(Run().status(), runner_.loop_status);
}

// The servers cannot know that the last step's second update was its last.
TEST_F(TrainingLoopTest, WhereAGroupHasSeveralUpdatesInAStepAllAskForTheWeightsAfterTheLastOne) {
  runner_.updates_a_step = 2;
  WEIR_ASSERT_OK(Run());
  EXPECT_EQ(client_.pushes[5].group_step, 5u);
  EXPECT_EQ(client_.pushes[5].step, 2u);
  EXPECT_THAT(calls_, ElementsAre("declare", "assign", "initialised", "pull 0", "state 3", "pull 3",
                                  "barrier end", "save", "barrier saved", "pull 3",
                                  "barrier evaluate-final", "leave finished"));
}

// The last of the three steps updates nothing.
TEST_F(TrainingLoopTest, WhereTheLastStepLeavesAGroupOutAllAskForTheWeightsAfterItToo) {
  runner_.loop = [&](TrainingSteps& steps) {
    while (steps.Next()) {
      runner_.forgets_to_step = steps.Place().step == 2;
      (void)steps.Step();
    }
  };
  WEIR_ASSERT_OK(Run());
  EXPECT_EQ(client_.pushes.size(), 2u);
  EXPECT_EQ(std::count(calls_.begin(), calls_.end(), "pull 3"), 2);
}

TEST_F(TrainingLoopTest, AStepWithinWhoseCollectivesAWorkerLeftIsRepeatedOnTheSameExamples) {
  spec_.set_workers(2);
  runner_.failures = {MemberLeft("rank 1 has left"), MemberLeft("rank 2 has left")};
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  EXPECT_EQ(summary.steps, 3u);
  EXPECT_THAT(runner_.trained, ElementsAre(8, 8, 8, 8, 4));
  EXPECT_EQ(runner_.steps[2].step, 0u);
  EXPECT_NE(runner_.steps[2].others, nullptr);
  EXPECT_EQ(client_.pushes.size(), 3u);
  EXPECT_EQ(client_.pushes[2].consumed, 20u);
}

// The gradient counts once.
TEST_F(TrainingLoopTest, ARepeatedStepUpdatesNothingTwice) {
  spec_.set_workers(2);
  runner_.late_failures = {MemberLeft("rank 1 has left")};
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  EXPECT_EQ(summary.steps, 3u);
  EXPECT_THAT(runner_.trained, ElementsAre(8, 8, 8, 4));
  ASSERT_EQ(client_.pushes.size(), 3u);
  for (uint64_t step = 0; step < 3; ++step) {
    EXPECT_EQ(client_.pushes[step].step, step);
    EXPECT_EQ(client_.pushes[step].group_step, step);
  }
}

TEST_F(TrainingLoopTest, AModelThatNeverStepsAnOptimizerIsAnError) {
  runner_.forgets_to_step = true;
  EXPECT_THAT(Run().status(),
              HasStatus(absl::StatusCode::kFailedPrecondition,
                        "nothing was trained in 3 steps: no step function has called Step() of an "
                        "optimizer, such as sgd"));
}

TEST_F(TrainingLoopTest, ALoopIsEnteredAnewAfterARollback) {
  int entered = 0;
  runner_.loop = [&](TrainingSteps& steps) {
    ++entered;
    while (steps.Next()) (void)steps.Step();
  };
  client_.before_push = [&](const PushOptions& options) -> absl::Status {
    if (options.step != 1 || session_.info.attempt > 0) return absl::OkStatus();
    session_.info.attempt = 1;
    return absl::AbortedError("rolled back");
  };
  WEIR_ASSERT_OK(Run());
  EXPECT_EQ(entered, 2);
}

// The steps of 8, 16 and 20 examples in one turn: what falls due within it comes once, after it.
TEST_F(TrainingLoopTest, WhatFallsDueWithinATurnOfTheLoopIsDoneBetweenTurns) {
  spec_.mutable_length()->set_epochs(2);
  spec_.mutable_evaluate()->mutable_every()->set_examples(8);
  runner_.loop = [&](TrainingSteps& steps) {
    while (steps.Next()) {
      for (int i = 0; i < 3; ++i) (void)steps.Step();
    }
  };
  WEIR_ASSERT_OK(Run());
  EXPECT_THAT(calls_, AllOf(Contains("pull 3"), Not(Contains("pull 1")), Not(Contains("pull 2")),
                            Not(Contains("pull 4")), Not(Contains("pull 5"))));
}

TEST_F(TrainingLoopTest, AsyncTakesRangesUntilTheDataEnds) {
  spec_.mutable_regime()->set_kind(v1::REGIME_ASYNC);
  session_.ranges = {{0, 0, 16}, {0, 16, 20}};
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  EXPECT_THAT(runner_.trained, ElementsAre(8, 8, 4));
  EXPECT_EQ(summary.steps, 3u);
  EXPECT_EQ(session_.reported.back().staleness, 3);
}

// This worker has trained on 8 of 20 examples when there are no more: others had the rest.
TEST_F(TrainingLoopTest, TheFinalEvaluationStandsAtTheJobsEnd) {
  const TempFolder folder;
  metrics_file_ = folder.path() + "/metrics.jsonl";
  spec_.mutable_regime()->set_kind(v1::REGIME_ASYNC);
  session_.ranges = {{0, 0, 8}};
  WEIR_ASSERT_OK(Run());
  std::ifstream file(metrics_file_);
  std::string interval;
  std::string evaluation;
  ASSERT_TRUE(std::getline(file, interval) && std::getline(file, evaluation));
  EXPECT_THAT(interval, HasSubstr("\"epoch\":0.4"));
  EXPECT_THAT(evaluation, AllOf(HasSubstr("\"epoch\":1.0"), HasSubstr("test_accuracy")));
}

TEST_F(TrainingLoopTest, AnInterruptedWorkerLeavesTheJob) {
  client_.before_push = [&](const PushOptions& options) {
    interrupted_ = options.step == 1;
    return absl::OkStatus();
  };
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(client_.pushes.size(), 2u);
  EXPECT_EQ(calls_.back(), "leave interrupted");
}

TEST_F(TrainingLoopTest, AnInterruptionEndsAWaitForTheOthersWithinHalfASecond) {
  spec_.set_step_timeout_ms(absl::ToInt64Milliseconds(absl::Hours(1)));
  const absl::Time interrupted_at = clock_.Now() + absl::Seconds(12);
  session_.not_ready = [&](absl::Duration timeout) {
    clock_.SetNow(clock_.Now() + timeout);
    interrupted_ = clock_.Now() >= interrupted_at;
    return absl::DeadlineExceededError("1 of 2 workers are here");
  };
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kCancelled);
  EXPECT_LE(clock_.Now() - interrupted_at, absl::Milliseconds(500));
  EXPECT_EQ(calls_.back(), "leave interrupted");
}

TEST_F(TrainingLoopTest, AnInterruptionEndsAWaitForANewAttemptWithinHalfASecond) {
  const absl::Time interrupted_at = clock_.Now() + absl::Seconds(12);
  client_.before_push = [](const PushOptions&) { return absl::AbortedError("rolled back"); };
  session_.no_other_attempt = [&](absl::Duration timeout) {
    clock_.SetNow(clock_.Now() + timeout);
    interrupted_ = clock_.Now() >= interrupted_at;
    return absl::DeadlineExceededError("still in attempt 1");
  };
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kCancelled);
  EXPECT_LE(clock_.Now() - interrupted_at, absl::Milliseconds(500));
}

TEST_F(TrainingLoopTest, AWaitForTheOthersIsLoggedEveryTenSeconds) {
  const LogCapture log;
  const absl::Time ready_at = clock_.Now() + absl::Seconds(35);
  session_.not_ready = [&](absl::Duration timeout) -> absl::Status {
    if (clock_.Now() >= ready_at) return absl::OkStatus();
    clock_.SetNow(clock_.Now() + timeout);
    return absl::DeadlineExceededError("1 of 2 workers are here");
  };
  WEIR_ASSERT_OK(Run());
  EXPECT_THAT(log.LinesWith("1 of 2 workers are here"),
              ElementsAre(HasSubstr("10s"), HasSubstr("20s"), HasSubstr("30s")));
}

TEST_F(TrainingLoopTest, AJobStoppedByCommandIsLeftWithItsStatePushedForTheCoordinatorToSave) {
  client_.before_push = [&](const PushOptions& options) {
    session_.info.stop = options.step == 1;
    return absl::OkStatus();
  };
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  EXPECT_TRUE(summary.stopped);
  EXPECT_EQ(summary.steps, 2u);
  EXPECT_THAT(calls_, AllOf(Contains("state 2"), Not(Contains("save")), Contains("leave finished"),
                            Not(Contains("barrier end"))));
}

TEST_F(TrainingLoopTest, AStoppedSyncJobIsLeftBeforeTheStepThatNobodyRuns) {
  client_.before_push = [&](const PushOptions& options) {
    session_.info.stop = options.step >= 1;
    session_.info.stop_step = 3;
    return absl::OkStatus();
  };
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  EXPECT_TRUE(summary.stopped);
  EXPECT_EQ(summary.steps, 3u);
}

TEST_F(TrainingLoopTest, ACheckpointThatFailsDoesNotCostTheEvaluation) {
  session_.saved = absl::ResourceExhaustedError("the disk is full");
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  EXPECT_EQ(summary.test_accuracy, 0.5);
  EXPECT_EQ(summary.checkpoint, "");
  EXPECT_EQ(summary.saved, session_.saved);
}

// The first worker may have left before the second comes out of the last barrier.
TEST_F(TrainingLoopTest, OnlyTheLowestRankOfTheWholeJobWritesTheSummary) {
  session_.info.rank = 1;
  session_.info.members = {{0, 0}, {1, 0}};
  session_.info.initialiser = false;
  session_.info.state = JobState::kRunning;
  session_.at_barrier = [&](const std::string& name) {
    if (name == "evaluate-final") session_.info.members = {{1, 0}};
  };
  session_.alike = 2;
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  EXPECT_FALSE(summary.lead);
}

TEST_F(TrainingLoopTest, ARefusedDeclarationEndsTheRun) {
  session_.declared = absl::FailedPreconditionError("variable weight: shape differs");
  EXPECT_THAT(Run().status(),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("shape differs")));
  EXPECT_EQ(calls_.back(), "leave variable weight: shape differs");
}

TEST_F(TrainingLoopTest, EvaluationAtIntervalsLeavesTheReplicasStateAlone) {
  spec_.mutable_evaluate()->mutable_every()->set_examples(8);
  WEIR_ASSERT_OK(Run());
  // After the steps of 8 and of 16 examples, and at the end.
  EXPECT_THAT(calls_, AllOf(Contains("pull 1"), Contains("pull 2"), Contains("pull 3")));
  EXPECT_EQ(runner_.counter, 3);
}

// The aggregate has statistics of the others that are up to `state_every` steps old. At the end all
// have pushed theirs.
TEST_F(TrainingLoopTest, AnEvaluationWithinAsyncUsesStatisticsAsNewAsItsWeights) {
  spec_.mutable_regime()->set_kind(v1::REGIME_ASYNC);
  spec_.mutable_evaluate()->mutable_every()->set_examples(8);
  session_.ranges = {{0, 0, 20}};
  WEIR_ASSERT_OK(Run());
  EXPECT_THAT(runner_.evaluated, ElementsAre(1, 2, 0));
  EXPECT_EQ(runner_.counter, 3);
}

TEST_F(TrainingLoopTest, AnEvaluationWithinAsyncHasTheSumOfStateThatIsSummed) {
  runner_.AggregateStateBy(Aggregation::kSum);
  spec_.mutable_regime()->set_kind(v1::REGIME_ASYNC);
  spec_.mutable_evaluate()->mutable_every()->set_examples(8);
  session_.ranges = {{0, 0, 20}};
  WEIR_ASSERT_OK(Run());
  EXPECT_THAT(runner_.evaluated, ElementsAre(0, 0, 0));
}

TEST_F(TrainingLoopTest, AnEvaluationInSyncUsesTheStatisticsOfAll) {
  spec_.mutable_evaluate()->mutable_every()->set_examples(8);
  WEIR_ASSERT_OK(Run());
  EXPECT_THAT(runner_.evaluated, ElementsAre(0, 0, 0));
}

// 2 epochs are 6 steps, of which the others have done 4 when this worker's second push arrives.
TEST_F(TrainingLoopTest, ALateWorkerGoesOnWithTheOthersStepAndCountsIt) {
  spec_.set_workers(3);
  spec_.mutable_regime()->set_backup_workers(1);
  spec_.mutable_length()->set_epochs(2);
  client_.answer = [](const PushOptions& options, PushStats& stats) {
    stats.late = options.step == 1;
    if (stats.late) stats.next_step = stats.next_group_step = 4;
  };
  WEIR_ASSERT_OK_AND_ASSIGN(const RunSummary summary, Run());
  std::vector<uint64_t> steps;
  for (const PushOptions& push : client_.pushes) {
    EXPECT_EQ(push.group_step, push.step);
    steps.push_back(push.step);
  }
  EXPECT_THAT(steps, ElementsAre(0, 1, 4, 5));
  EXPECT_EQ(summary.late_pushes, 1u);
  EXPECT_EQ(summary.steps, 6u);
  EXPECT_EQ(session_.reported.back().late_pushes, 1u);
}

TEST_F(TrainingLoopTest, ABoundedWorkerBeginsWhereTheSlowestIsAndSaysWhenItHasFinished) {
  spec_.mutable_regime()->set_kind(v1::REGIME_BOUNDED_STALENESS);
  spec_.mutable_regime()->set_bounded_staleness(3);
  session_.info.state = JobState::kRunning;
  session_.info.initialiser = false;
  session_.info.members = {{0, 5, 0}};
  session_.ranges = {{0, 0, 20}};
  client_.slowest_step = 7;
  WEIR_ASSERT_OK(Run());
  EXPECT_THAT(calls_,
              ElementsAre("declare", "pull 5", "finished 1", "state 10", "barrier end", "save",
                          "barrier saved", "pull 0", "barrier evaluate-final", "leave finished"));
  ASSERT_EQ(client_.pushes.size(), 3u);
  EXPECT_EQ(client_.pushes[0].step, 7u);
}

// 8, 8 and 4 examples, and two steps before them in which others hold all that is left.
TEST_F(TrainingLoopTest, ABoundedWorkerWithoutDataPushesItsStepsWithoutTheModel) {
  spec_.mutable_regime()->set_kind(v1::REGIME_BOUNDED_STALENESS);
  spec_.mutable_regime()->set_bounded_staleness(3);
  session_.ranges = {{0, 0, 20}};
  session_.dry = 2;
  WEIR_ASSERT_OK(Run());
  EXPECT_THAT(client_.absent, ElementsAre(true, true, false, false, false));
  EXPECT_THAT(runner_.trained, ElementsAre(8, 8, 4));
  EXPECT_EQ(runner_.steps[0].step, 2u);
  EXPECT_EQ(client_.pushes[0].weight, 0);
  EXPECT_EQ(client_.weight, 97);
  EXPECT_EQ(runner_.weight, 97);
}

// Ranks 1 and 3 are a group, of which 3 joins with step 1.
TEST_F(TrainingLoopTest, InSyncGroupsThoseOfTheGroupAreInSync) {
  spec_.set_workers(4);
  spec_.mutable_regime()->set_kind(v1::REGIME_SYNC_GROUPS);
  spec_.mutable_regime()->set_sync_group_size(2);
  session_.info.rank = 3;
  session_.info.members = {{0, 0, 0}, {1, 0, 1}, {2, 0, 0}, {3, 1, 1}};
  session_.info.initialiser = false;
  session_.info.state = JobState::kRunning;
  session_.ranges = {{0, 0, 20}};
  (void)Run();
  ASSERT_FALSE(runner_.steps.empty());
  EXPECT_EQ(runner_.steps[0].step, 1u);
  EXPECT_EQ(runner_.steps[0].first_replica, 3u);
  EXPECT_EQ(runner_.steps[0].first_index, 1u);
  EXPECT_EQ(runner_.steps[0].replicas_in_sync, 2u);
}

}  // namespace
}  // namespace weir
