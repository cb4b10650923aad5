// SPDX-License-Identifier: Apache-2.0
// Replicas of a small model in one process, whose step a test brings.
#pragma once

#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/status_matchers.h"
#include "weir/replicator.h"
#include "worker/torch_runner.h"

namespace weir {

// What the tests look at from outside. By replica.
struct Seen {
  std::vector<torch::Tensor> tensors = std::vector<torch::Tensor>(8);
  std::vector<std::string> texts = std::vector<std::string>(8);
};

using Step = std::function<Nest(StepContext&, torch::nn::Linear&, Optimizer&, const Nest&)>;

// 64 inputs, one output, and a step that the test brings.
class Scripted final : public Replica {
 public:
  Scripted(ReplicaContext& context, Step step)
      : net_(context.Add("net", torch::nn::Linear(64, 1))),
        norm_(context.Add("norm", torch::nn::BatchNorm1d(64))),
        sgd_(context.WrapOptimizer("sgd", net_->parameters(), torch::optim::SGDOptions(0.1))),
        step_(std::move(step)) {}
  Nest Train(StepContext& context, const Nest& batch) override {
    if (batch["image"].size(0) > 1) norm_(batch["image"].flatten(1));  // moves its statistics
    return step_(context, net_, sgd_, batch);
  }
  Nest Evaluate(StepContext& context, const Nest& batch) override {
    return {{"mean", batch["image"].mean()},
            {"id", torch::tensor(static_cast<int64_t>(context.step()))}};
  }

 private:
  torch::nn::Linear net_;
  torch::nn::BatchNorm1d norm_;
  Optimizer sgd_;
  Step step_;
};

// Least squares, after what `before` does.
inline Step LeastSquares(std::function<void(StepContext&)> before = [](StepContext&) {}) {
  return [before](StepContext& context, torch::nn::Linear& net, Optimizer& sgd, const Nest& batch) {
    before(context);
    const torch::Tensor errors = net(batch["image"].flatten(1)).flatten() - batch["label"];
    const torch::Tensor loss = errors.square().mean();
    sgd.ZeroGrad();
    loss.backward();
    sgd.Step();
    return Nest{{"loss", loss.detach()}};
  };
}

struct RunnerOptions {
  uint32_t replicas = 1;
  bool deterministic = false;
  int timeout_ms = 60000;
};

inline absl::StatusOr<std::unique_ptr<ReplicaRunner>> Create(const Step& step,
                                                             RunnerOptions given) {
  ModelRegistry models;
  models.Add("scripted",
             {[step](ReplicaContext& context) { return std::make_unique<Scripted>(context, step); },
              nullptr});
  TorchRunnerOptions options;
  options.spec.mutable_model()->set_builtin("scripted");
  options.spec.set_seed(7);
  options.spec.set_replicas_per_worker(given.replicas);
  options.spec.set_deterministic(given.deterministic);
  options.spec.set_step_timeout_ms(static_cast<uint64_t>(given.timeout_ms));
  options.height = options.width = 8;
  options.classes = 4;
  return CreateTorchRunner(models, options);
}

inline ImageBatch Examples(uint64_t first, uint64_t end) {
  ImageBatch batch;
  batch.examples = end - first;
  batch.height = batch.width = 8;
  for (uint64_t i = first * 64; i < end * 64; ++i) {
    batch.images.push_back(std::sin(static_cast<float>(i * i % 101)));
  }
  for (uint64_t i = first; i < end; ++i) batch.labels.push_back(static_cast<int64_t>(i % 4));
  return batch;
}

// Examples 0, 1, ... in parts of these sizes.
inline std::vector<ReplicaBatch> Parts(const std::vector<uint64_t>& sizes) {
  std::vector<ReplicaBatch> parts;
  uint64_t first = 0;
  for (const uint64_t size : sizes) {
    parts.push_back(Examples(first, first + size));
    first += size;
  }
  return parts;
}

// Plain gradient descent.
class Descent final : public GroupUpdates {
 public:
  absl::Status Update(uint32_t, absl::Span<const PushItem> gradients,
                      absl::Span<const PullItem> weights, double weight) override {
    weights_of_pushes.push_back(weight);
    for (size_t i = 0; i < gradients.size(); ++i) {
      const auto* gradient = static_cast<const float*>(gradients[i].data);
      auto* values = static_cast<float*>(weights[i].data);
      for (size_t k = 0; gradient != nullptr && k < weights[i].bytes / sizeof(float); ++k) {
        values[k] -= 0.01f * gradient[k];
      }
    }
    return result;
  }
  std::vector<double> weights_of_pushes;
  absl::Status result;
};

inline absl::StatusOr<Metrics> Train(ReplicaRunner& runner,
                                     const std::vector<ReplicaBatch>& batches,
                                     GroupUpdates& updates, uint64_t step = 0) {
  ReplicaStep place;
  place.step = step;
  place.first_replica = 4;
  place.replicas_in_sync = runner.replicas();
  return runner.Train(place, batches, updates);
}

// Of f32, by its place in the declaration.
inline std::vector<float> ValuesOf(ReplicaRunner& runner, size_t variable) {
  const PullItem item = runner.Storage()[variable];
  const auto* values = static_cast<const float*>(item.data);
  return {values, values + item.bytes / sizeof(float)};
}

}  // namespace weir
