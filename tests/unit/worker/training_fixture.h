// SPDX-License-Identifier: Apache-2.0
// A run of a worker over a fake job and a fake model.
#pragma once

#include <gmock/gmock.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/manual_executor.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/worker/fake_job.h"
#include "worker/training_loop.h"
#include "worker/training_steps.h"

namespace weir {

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
  absl::StatusOr<std::vector<LocalValues>> LocalOptimizers() override { return local; }
  void KeepState() override { kept_ = counter; }
  void RestoreState() override { counter = kept_; }
  absl::StatusOr<Metrics> Train(const ReplicaStep& step, absl::Span<const ReplicaBatch> batches,
                                GroupUpdates& updates) override {
    steps.push_back(step);
    trained.push_back(batches[0].examples);
    if (forgets_to_step) return Metrics();
    if (before_update) before_update(step);
    if (!failures.empty()) {
      const absl::Status failure = failures.front();
      failures.erase(failures.begin());
      return failure;
    }
    const float gradient = 1;
    const bool absent = batches[0].examples == 0;
    const PushItem push{0, absent ? nullptr : &gradient, absent ? 0 : sizeof(gradient)};
    const PullItem pull{0, &weight, sizeof(weight)};
    if (defers) {
      const absl::Status settled = Settle();
      deferred_ = updates.StartUpdate(1, {push}, {pull}, 1);
      return settled.ok() ? absl::StatusOr<Metrics>(Metrics()) : settled;
    }
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
  absl::Status Settle() override {
    const auto deferred = std::exchange(deferred_, nullptr);
    return deferred == nullptr ? absl::OkStatus() : deferred->Wait();
  }
  absl::Status Loop(TrainingSteps& steps) override {
    if (loop) {
      loop(steps);
    } else {
      while (steps.Next()) steps.Log(steps.Step());
    }
    return loop_status;
  }
  absl::StatusOr<Metrics> Evaluate(absl::Span<const ReplicaBatch>) override {
    evaluated.push_back(counter);
    counter = -1;
    return Metrics{{"accuracy", 0.5}};
  }

  void AggregateStateBy(Aggregation aggregation) {
    declaration_.variables[1].aggregation = aggregation;
  }

  float weight = 0;
  float counter = 0;
  bool forgets_to_step = false;
  std::function<void(const ReplicaStep&)> before_update;
  int updates_a_step = 1;
  bool defers = false;             // waits for an update in the next step, or where it is told to
  std::vector<LocalValues> local;  // optimizers
  std::vector<uint64_t> trained;
  std::vector<ReplicaStep> steps;
  std::vector<absl::Status> failures;        // of the next steps, before they push
  std::vector<absl::Status> late_failures;   // after they have
  std::function<void(TrainingSteps&)> loop;  // of the model's own
  absl::Status loop_status;
  std::vector<float> evaluated;  // states

 private:
  std::unique_ptr<PendingUpdate> deferred_;
  float kept_ = 0;
  Declaration declaration_;
};

// As many examples as the slice has, without content.
class CountedInput final : public WorkerInput {
 public:
  absl::StatusOr<std::vector<ReplicaBatch>> Take(const InputRequest& request) override {
    if (before) {
      const absl::Status status = before(request);
      if (!status.ok()) return status;
    }
    return std::vector<ReplicaBatch>{{request.slice.examples(), nullptr}};
  }
  uint32_t ahead() const override { return steps_ahead; }

  uint32_t steps_ahead = 0;
  std::function<absl::Status(const InputRequest&)> before;
};

class CountedSet final : public SliceReader {
 public:
  uint64_t size() const override { return 20; }
  absl::StatusOr<ReplicaBatch> Read(const BatchSlice& slice) override {
    return ReplicaBatch(slice.examples(), nullptr);
  }
};

class TrainingFixture : public testing::Test {
 protected:
  TrainingFixture() {
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

  // The job has run before this worker, whose first step is `first_step`.
  void JoinRunning(uint64_t first_step) {
    session_.info.initialiser = false;
    session_.info.state = JobState::kRunning;
    session_.info.members = {{0, first_step}};
  }

  absl::StatusOr<RunSummary> Run() {
    ProgressLog::Options options;
    options.log_every = spec_.log_every();
    options.train_examples = spec_.train_examples();
    options.metrics_file = metrics_file_;
    auto log = ProgressLog::Create(options, session_, clock_);
    return TrainingLoop(TrainingParts{spec_, session_, client_, runner_, input_, test_, **log,
                                      clock_, interrupted_})
        .Run();
  }

  Calls calls_;
  FakeClock clock_;
  FakeSession session_{calls_};
  FakeClient client_{calls_};
  FakeRunner runner_;
  CountedInput input_;
  CountedSet set_;
  SliceReader* test_ = &set_;
  v1::JobSpec spec_;
  std::string metrics_file_;  // empty: none
  std::atomic<bool> interrupted_{false};
};

}  // namespace weir
