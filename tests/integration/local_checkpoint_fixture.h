// SPDX-License-Identifier: Apache-2.0
// A job in one process with a folder for its checkpoints.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"
#include "weir/v1/coordinator.pb.h"
#include "worker/embedded/local_job.h"

namespace weir {

constexpr size_t kElements = 100'000;  // several shards

inline Declaration TwoVariables() {
  Declaration declaration;
  OptimizerGroup& group = declaration.groups.emplace_back();
  group.name = "all";
  group.optimizer = Adam{};
  VariableSpec& weights = declaration.variables.emplace_back();
  weights.name = "weights";
  weights.shape = {kElements};
  VariableSpec& mean = declaration.variables.emplace_back();
  mean.name = "mean";
  mean.dtype = DType::kFloat64;
  mean.shape = {3};
  mean.group = 0;
  return declaration;
}

class LocalCheckpointTest : public ::testing::Test {
 protected:
  LocalJobOptions OptionsFor(const std::string& resume) {
    LocalJobOptions options;
    options.spec.set_name("job");
    options.spec.set_resume(resume);
    options.spec.set_train_examples(1000);
    options.spec.mutable_length()->set_epochs(3);
    options.spec.mutable_data()->mutable_batch()->set_global(100);
    options.spec.mutable_checkpoint()->set_keep(2);
    options.data_dir = temp_.path();
    return options;
  }

  // Opens the job and, where nothing is restored, assigns its initial values.
  absl::StatusOr<Job> Open(const LocalJobOptions& options) {
    absl::StatusOr<Job> job = OpenLocalJob(options);
    if (!job.ok()) return job.status();
    absl::Status status = job->session->Declare(TwoVariables());
    if (!status.ok()) return status;
    absl::StatusOr<JobInfo> info = job->session->WaitUntilReady(absl::Seconds(5));
    if (!info.ok()) return info.status();
    step_ = info->resume_step;
    consumed_ = 0;
    if (info->state != JobState::kInitialising) return job;
    const std::vector<float> weights(kElements, 0.5f);
    const std::vector<double> mean = {1, 2, 3};
    const PushItem items[] = {{0, weights.data(), weights.size() * sizeof(float)},
                              {1, mean.data(), mean.size() * sizeof(double)}};
    status = job->parameters->Assign(items);
    if (status.ok()) status = job->session->ReportInitialised();
    if (!status.ok()) return status;
    info = job->session->WaitUntilReady(absl::Seconds(5));
    if (!info.ok()) return info.status();
    return job;
  }

  // One step, whose gradients and state depend on its number alone.
  absl::Status Train(Job& job) {
    std::vector<float> gradient(kElements);
    for (size_t i = 0; i < kElements; ++i) {
      gradient[i] = 0.001f * static_cast<float>((i * 7 + step_ * 13) % 101) - 0.05f;
    }
    const std::vector<double> mean(3, static_cast<double>(step_));
    consumed_ += 100;
    PushOptions options;
    options.step = options.group_step = step_++;
    options.examples = 100;
    options.consumed = consumed_;
    const PushItem gradients[] = {{0, gradient.data(), gradient.size() * sizeof(float)}};
    const absl::Status pushed = job.parameters->Push(gradients, options).status();
    if (!pushed.ok()) return pushed;
    options.group = 0;
    options.examples = 0;
    const PushItem state[] = {{1, mean.data(), mean.size() * sizeof(double)}};
    return job.parameters->Push(state, options).status();
  }

  absl::StatusOr<std::string> Pull(Job& job) {
    std::string bytes(kElements * sizeof(float) + 3 * sizeof(double), '\0');
    const PullItem items[] = {{0, bytes.data(), kElements * sizeof(float)},
                              {1, bytes.data() + kElements * sizeof(float), 3 * sizeof(double)}};
    const absl::Status status = job.parameters->Pull(items, {}).status();
    if (!status.ok()) return status;
    return bytes;
  }

  TempFolder temp_;
  uint64_t step_ = 0;
  uint64_t consumed_ = 0;
};

}  // namespace weir
