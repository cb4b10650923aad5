// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "weir/optimizer.h"
#include "worker/step_parts.h"

namespace weir {

// Throws StepError: InvalidArgument - a limit that is negative or no number, or more than one.
void CheckClip(const std::string& optimizer, const GradientClip& clip);

// The gradients of an optimizer's parameters, by parameter; undefined: absent. They are on the CPU
// and contiguous, of f32 or f64. Nothing is written into them.
using Gradients = std::vector<torch::Tensor>;

// So that their L2 norm, of all together, is at most `limit` (torch::nn::utils::clip_grad_norm_).
void ClipNorm(double limit, Gradients& gradients);

// The mean over all replicas in sync, which call it together; `parameters` are those of the
// gradients. One is absent that is absent on all of them. Throws StepError: a collective's.
Gradients MeanOverReplicas(StepParts& step, const std::string& optimizer,
                           const std::vector<torch::Tensor>& parameters,
                           const Gradients& gradients);

// What `clip.value` and `clip.global_norm` say, to the mean over the replicas in sync. Without
// them: the gradients as they are, and nothing is called.
Gradients ClippedMean(StepParts& step, const std::string& optimizer, const GradientClip& clip,
                      const std::vector<torch::Tensor>& parameters, Gradients gradients);

}  // namespace weir
