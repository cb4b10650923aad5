// SPDX-License-Identifier: Apache-2.0
// What a model is to Weir. C++17; no protobuf, no gRPC.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weir/nest.h"
#include "weir/optimizer.h"
#include "weir/options.h"

namespace weir {

struct ReplicaParts;

// What the training set's examples look like.
struct ExampleShape {
  int64_t channels = 1;
  int64_t height = 0;
  int64_t width = 0;
  int64_t classes = 0;
};

// Where a replica is built. Used from one thread, while the replica's constructor runs.
class ReplicaContext {
 public:
  explicit ReplicaContext(ReplicaParts& parts) : parts_(parts) {}

  const Options& options() const;
  const ExampleShape& example_shape() const;
  torch::Device device() const { return torch::kCPU; }

  // Moves the module to device() and makes its parameters variables "name/...", its buffers state.
  // Every replica of the job starts from equal values. Throws StepError: InvalidArgument - the name
  // is taken, or a dtype that no variable can have.
  template <typename Holder>
  Holder Add(const std::string& name, Holder module) {
    AddModule(name, module.ptr());
    return module;
  }

  // Hands parameters of added modules to an optimizer on the servers. What the job file says under
  // this name replaces the options. Throws StepError: InvalidArgument - a parameter that is not
  // part of an added module, or has an optimizer already.
  Optimizer WrapOptimizer(const std::string& name, const std::vector<torch::Tensor>& parameters,
                          const torch::optim::SGDOptions& options);
  Optimizer WrapOptimizer(const std::string& name, const std::vector<torch::Tensor>& parameters,
                          const torch::optim::AdamOptions& options);
  Optimizer WrapOptimizer(const std::string& name, const std::vector<torch::Tensor>& parameters,
                          const torch::optim::AdamWOptions& options);
  Optimizer WrapOptimizer(const std::string& name, const std::vector<torch::Tensor>& parameters,
                          const torch::optim::AdagradOptions& options);
  Optimizer WrapOptimizer(const std::string& name, const std::vector<torch::Tensor>& parameters,
                          const torch::optim::RMSpropOptions& options);
  // With the one optimizer that the job file names: how the built-in models train.
  // Throws StepError: InvalidArgument - the job has none or several.
  Optimizer WrapJobOptimizer(const std::vector<torch::Tensor>& parameters);

 private:
  void AddModule(const std::string& name, std::shared_ptr<torch::nn::Module> module);

  ReplicaParts& parts_;
};

// One call of a step function. Used from one thread.
class StepContext {
 public:
  explicit StepContext(uint64_t step) : step_(step) {}

  uint64_t step() const { return step_; }

 private:
  const uint64_t step_;
};

// One copy of a model with its step functions. Built, used and destroyed by one thread.
class Replica {
 public:
  virtual ~Replica() = default;

  // A training step on a batch: "image" (examples x channels x height x width), "label" (examples).
  // Steps every optimizer. Returns named scalars, means over the batch: the metrics.
  virtual Nest Train(StepContext& context, const Nest& batch) = 0;
  // Without gradients and in evaluation mode; returns means over the batch.
  virtual Nest Evaluate(StepContext& context, const Nest& batch) = 0;
};

}  // namespace weir
