// SPDX-License-Identifier: Apache-2.0
// C++17; no protobuf, no gRPC.
#pragma once

#include <torch/types.h>

#include <memory>
#include <utility>

namespace torch::optim {
class Optimizer;
}  // namespace torch::optim

namespace weir {

struct OptimizerLink;

// What is done to gradients before they are applied. At most one is set; 0: nothing. The applied
// gradient is the mean over the replicas in sync, which makes a step send the gradients round once
// more; in `async` and `bounded_staleness` it is what the process pushes.
struct GradientClip {
  double value = 0;        // each element of the applied gradient to [-value, value]
  double global_norm = 0;  // the applied gradient, of all of the optimizer's parameters together,
                           // to this L2 norm (torch::nn::utils::clip_grad_norm_)
  double push_norm = 0;    // the same, of what the process pushes
};

// When a step's new weights are there.
enum StepTiming {
  kAtOnce,    // when it returns
  kDeferred,  // before the next Run; until then the parameters keep the old ones
};

// A wrapped optimizer: its parameters are here, its rule and its slots are on the servers, or, of a
// local optimizer, here as well. A handle, cheap to copy. Used from one thread, its replica's.
class Optimizer {
 public:
  Optimizer() = default;
  explicit Optimizer(std::shared_ptr<OptimizerLink> link) : link_(std::move(link)) {}

  // How its gradients are clipped, for code like WrapOptimizer(...).Clip(...); what the job file
  // says comes before it. The same on every replica. Throws StepError: InvalidArgument - a limit
  // that is negative or no number, or more than one.
  Optimizer& Clip(const GradientClip& clip);

  // The one that WrapOptimizer was given as a whole: to read it, or to set its rate, on every
  // replica alike. Throws StepError: FailedPrecondition - it runs on the servers.
  torch::optim::Optimizer& local();

  // Forgets the gradients of its parameters.
  void ZeroGrad();

  // Pushes what `.grad` of its parameters holds, an undefined one as absent, and returns with the
  // new weights in the parameters' own storage. The gradients are handed over: `.grad` is undefined
  // then. Throws StepError: Aborted - the job was rolled back; InvalidArgument - a gradient that is
  // not finite, or of another shape or dtype than its parameter; FailedPrecondition - called
  // outside of a step.
  // kDeferred returns when the gradients are on their way. What is wrong with them may be told
  // by the next Run, then. Throws besides: InvalidArgument - of a local optimizer, whose weights
  // nobody waits for.
  void Step(StepTiming timing = kAtOnce);

  // Owns the one backward pass of its parameters in the step: forgets their gradients, runs that of
  // `loss` for them and for no others, and steps: deferred, but for a local optimizer. The graph is
  // gone then. Throws as Step does, and what the backward pass throws.
  void Minimize(const torch::Tensor& loss);

 private:
  std::shared_ptr<OptimizerLink> link_;
};

}  // namespace weir
