// SPDX-License-Identifier: Apache-2.0
#include "worker/gradient_clip.h"

#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "weir/step_error.h"
#include "worker/tensor_collective.h"

namespace weir {
namespace {

// Those of one dtype, one after another, then a number for each: 1 where there is a gradient.
torch::Tensor Joined(const std::vector<torch::Tensor>& parameters, const Gradients& gradients,
                     c10::ScalarType dtype) {
  std::vector<torch::Tensor> parts;
  std::vector<torch::Tensor> there;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].scalar_type() != dtype) continue;
    const bool defined = gradients[i].defined();
    parts.push_back(defined ? gradients[i].flatten()
                            : torch::zeros({parameters[i].numel()}, dtype));
    there.push_back(torch::full({1}, defined ? 1 : 0, dtype));
  }
  if (parts.empty()) return {};
  parts.insert(parts.end(), there.begin(), there.end());
  return torch::cat(parts);
}

void Split(const torch::Tensor& joined, const std::vector<torch::Tensor>& parameters,
           Gradients& gradients) {
  int64_t elements = 0;
  for (const torch::Tensor& parameter : parameters) {
    if (parameter.scalar_type() == joined.scalar_type()) elements += parameter.numel();
  }
  const torch::Tensor there = joined.slice(0, elements);
  int64_t first = 0;
  int64_t place = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].scalar_type() != joined.scalar_type()) continue;
    const int64_t end = first + parameters[i].numel();
    if (there[place++].item<double>() > 0) {
      gradients[i] = joined.slice(0, first, end).view(parameters[i].sizes());
    }
    first = end;
  }
}

}  // namespace

void CheckClip(const std::string& optimizer, const GradientClip& clip) {
  int given = 0;
  for (const double limit : {clip.value, clip.global_norm, clip.push_norm}) {
    if (!std::isfinite(limit) || limit < 0) {
      throw StepError(absl::InvalidArgumentError(
          absl::StrCat("optimizer \"", optimizer,
                       "\": gradients are clipped to a number above 0, not ", limit)));
    }
    given += limit > 0 ? 1 : 0;
  }
  if (given > 1) {
    throw StepError(absl::InvalidArgumentError(absl::StrCat(
        "optimizer \"", optimizer, "\": gradients are clipped by one of value, global_norm and ",
        "push_norm, not by several")));
  }
}

void ClipNorm(double limit, Gradients& gradients) {
  double squares = 0;
  for (const torch::Tensor& gradient : gradients) {
    if (gradient.defined()) squares += gradient.to(torch::kFloat64).square().sum().item<double>();
  }
  constexpr double kNoZero = 1e-6;  // as in LibTorch
  const double scale = limit / (std::sqrt(squares) + kNoZero);
  if (!(scale < 1)) return;
  for (torch::Tensor& gradient : gradients) {
    if (gradient.defined()) gradient = gradient * scale;
  }
}

Gradients MeanOverReplicas(StepParts& step, const std::string& optimizer,
                           const std::vector<torch::Tensor>& parameters,
                           const Gradients& gradients) {
  const absl::Status assembled = step.collectives->Assemble();
  if (!assembled.ok()) throw StepError(assembled);
  if (step.collectives->num_replicas_in_sync() == 1) return gradients;
  Gradients means(gradients.size());
  for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
    const torch::Tensor mine = Joined(parameters, gradients, dtype);
    if (!mine.defined()) continue;
    CollectiveCall call;
    call.op = ReduceOp::kMean;
    call.name = absl::StrCat("gradients of ", optimizer);
    call.weight = step.weight;
    Split(RunWithoutGradient(step, mine, call), parameters, means);
  }
  return means;
}

Gradients ClippedMean(StepParts& step, const std::string& optimizer, const GradientClip& clip,
                      const std::vector<torch::Tensor>& parameters, Gradients gradients) {
  if (clip.value == 0 && clip.global_norm == 0) return gradients;
  gradients = MeanOverReplicas(step, optimizer, parameters, gradients);
  if (clip.global_norm > 0) {
    ClipNorm(clip.global_norm, gradients);
    return gradients;
  }
  for (torch::Tensor& gradient : gradients) {
    if (gradient.defined()) gradient = gradient.clamp(-clip.value, clip.value);
  }
  return gradients;
}

}  // namespace weir
