// SPDX-License-Identifier: Apache-2.0
// Collectives on tensors.
#pragma once

#include <torch/types.h>

#include <memory>

#include "worker/collectives.h"
#include "worker/step_parts.h"

namespace weir {

// Where a backward pass finds the step that its collectives belong to; lives as long as the graph.
struct StepLink {
  StepParts* parts = nullptr;  // nullptr: the step has ended
};

// Blocks until all replicas in sync have called it. `call` says everything but dtype and shape,
// which are the tensor's. The result is on the tensor's device. Where gradients are recorded and
// the tensor needs one, the result has a gradient, and that gradient one of its own, except for
// whole numbers and bools.
//
// What a replica's gradient counts in the mean over replicas is its weight w, so that the adjoint
// of a collective is the one of the inner product sum_i w_i <a_i, b_i>: for a sum, replica j gets
// (1 / w_j) sum_i w_i dL_i. The backward pass calls one collective (MIN and MAX: two), which names
// the one of the forward pass. Throws StepError: see StepContext; FailedPrecondition also from a
// backward pass behind the step's end.
torch::Tensor RunCollective(const std::shared_ptr<StepLink>& step, const torch::Tensor& tensor,
                            const CollectiveCall& call);

// The same, with no gradient.
torch::Tensor RunWithoutGradient(StepParts& step, const torch::Tensor& tensor, CollectiveCall call);

}  // namespace weir
