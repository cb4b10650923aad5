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
#include "weir/step_context.h"

namespace weir {

struct ReplicaParts;

// What the training set's examples look like.
struct ExampleShape {
  int64_t channels = 1;
  int64_t height = 0;
  int64_t width = 0;
  int64_t classes = 0;
};

// When a target takes from its source: one of these.
struct TargetOptions {
  uint64_t every = 0;  // so many steps: it becomes equal to the source
  double decay = 0;    // with each update of the source: decay * target + (1 - decay) * source
};

// Where a replica is built. Used from one thread, while the replica's constructor runs.
class ReplicaContext {
 public:
  explicit ReplicaContext(ReplicaParts& parts) : parts_(parts) {}

  const Options& options() const;
  const ExampleShape& example_shape() const;
  torch::Device device() const;  // logical device 0
  // Of those that the job gives each replica. Throws StepError: InvalidArgument - there is none.
  torch::Device LogicalDevice(uint32_t logical) const;

  // Moves the module to a logical device and makes its parameters variables "name/...", its buffers
  // state. Every replica of the job starts from equal values. A parameter that is registered twice
  // (tied) is one variable; one that needs no gradient is state, and the lowest rank's is kept.
  // Throws StepError: InvalidArgument - the name is taken, a dtype that no variable can have, or a
  // tensor that shares memory with another.
  template <typename Holder>
  Holder Add(const std::string& name, Holder module, uint32_t logical_device = 0) {
    AddModule(name, module.ptr(), logical_device);
    return module;
  }

  // A module that follows another one, of the same architecture: a target network, a moving
  // average. The servers keep it, and it is saved with the job. It starts equal to the source and
  // takes from it at the end of steps, buffers too, which become equal to the source's. Its
  // parameters need no gradient, and it is always in evaluation mode. Throws StepError:
  // InvalidArgument - besides: the source is not added, or has other tensors; neither or both of
  // the options.
  template <typename Holder>
  Holder AddTarget(const std::string& name, Holder module, const Holder& source,
                   const TargetOptions& options, uint32_t logical_device = 0) {
    AddTargetModule(name, module.ptr(), *source, options, logical_device);
    return module;
  }

  // Hands parameters of added modules to an optimizer on the servers, but for those that need no
  // gradient. What the job file says under this name replaces the options. Throws StepError:
  // InvalidArgument - a parameter that is not part of an added module, or has an optimizer already.
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
  // Groups of parameters: those with options of their own, of the same class, have these, whatever
  // the job file says; the others have `options`, or what the job file says.
  using ParamGroups = std::vector<torch::optim::OptimizerParamGroup>;
  Optimizer WrapOptimizer(const std::string& name, const ParamGroups& groups,
                          const torch::optim::SGDOptions& options);
  Optimizer WrapOptimizer(const std::string& name, const ParamGroups& groups,
                          const torch::optim::AdamOptions& options);
  Optimizer WrapOptimizer(const std::string& name, const ParamGroups& groups,
                          const torch::optim::AdamWOptions& options);
  Optimizer WrapOptimizer(const std::string& name, const ParamGroups& groups,
                          const torch::optim::AdagradOptions& options);
  Optimizer WrapOptimizer(const std::string& name, const ParamGroups& groups,
                          const torch::optim::RMSpropOptions& options);
  // A local optimizer: of any class, stepped by every worker on the same mean of all gradients. In
  // `sync` only. What it keeps for its parameters is saved with the job, its options are not: a
  // rate that changes is to be a function of the step. It makes one step on gradients of zero here,
  // which is undone. Throws StepError: InvalidArgument - besides: another regime, or
  // backup_workers; the job file names it; it wants a closure; what it keeps does not serialise as
  // tensors and numbers.
  Optimizer WrapOptimizer(const std::string& name,
                          std::unique_ptr<torch::optim::Optimizer> optimizer);
  // With the one optimizer that the job file names: how the built-in models train.
  // Throws StepError: InvalidArgument - the job has none or several.
  Optimizer WrapJobOptimizer(const std::vector<torch::Tensor>& parameters);

 private:
  void AddModule(const std::string& name, std::shared_ptr<torch::nn::Module> module,
                 uint32_t logical_device);
  void AddTargetModule(const std::string& name, std::shared_ptr<torch::nn::Module> module,
                       const torch::nn::Module& source, const TargetOptions& options,
                       uint32_t logical_device);

  ReplicaParts& parts_;
};

// One copy of a model with its step functions. Used from one thread, which builds and destroys it.
class Replica {
 public:
  virtual ~Replica() = default;

  // A training step on a batch: "image" (examples x channels x height x width), "label" (examples).
  // Empty where a step has fewer examples than there are replicas: what it gives counts nothing
  // then. The named scalars that it returns, means over the batch, are the metrics.
  // Not called where the class has a Loop of its own that does not.
  virtual Nest Train(StepContext& context, const Nest& batch);
  // Without gradients and in evaluation mode; returns means over the batch. Nothing by default.
  virtual Nest Evaluate(StepContext& context, const Nest& batch);
};

}  // namespace weir
