// SPDX-License-Identifier: Apache-2.0
// C++17; no protobuf, no gRPC.
#pragma once

#include <memory>
#include <utility>

namespace weir {

struct OptimizerLink;

// A wrapped optimizer: its parameters are here, its rule and its slots are on the servers. A
// handle, cheap to copy. Used from its replica's thread.
class Optimizer {
 public:
  Optimizer() = default;
  explicit Optimizer(std::shared_ptr<OptimizerLink> link) : link_(std::move(link)) {}

  // Forgets the gradients of its parameters.
  void ZeroGrad();

  // Pushes what `.grad` of its parameters holds, an undefined one as absent, and returns with the
  // new weights in the parameters' own storage. The gradients are handed over: `.grad` is undefined
  // then. Throws StepError: Aborted - the job was rolled back; InvalidArgument - a gradient that is
  // not finite, or of another shape or dtype than its parameter; FailedPrecondition - called
  // outside of a step.
  void Step();

 private:
  std::shared_ptr<OptimizerLink> link_;
};

}  // namespace weir
