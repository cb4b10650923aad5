// SPDX-License-Identifier: Apache-2.0
#include "weir/optimizer.h"

#include <torch/utils.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/deferred_updates.h"
#include "worker/gradient_clip.h"
#include "worker/libtorch_names.h"
#include "worker/local_optimizer.h"
#include "worker/local_step.h"
#include "worker/reduction.h"
#include "worker/replica_parts.h"
#include "worker/replica_variables.h"
#include "worker/torch_dtype.h"

namespace weir {
namespace {

// The gradient as one run of elements in the parameter's dtype, or undefined.
torch::Tensor Handed(const torch::Tensor& parameter, const std::string& name) {
  torch::Tensor gradient = parameter.grad();
  if (!gradient.defined()) return gradient;
  if (gradient.is_sparse()) gradient = gradient.to_dense();
  if (gradient.sizes() != parameter.sizes() || gradient.dtype() != parameter.dtype()) {
    throw StepError(absl::InvalidArgumentError(
        absl::StrCat("the gradient of ", name, " has another shape or dtype than the parameter")));
  }
  // Gradients may have stride 0 or another layout than their parameter.
  return gradient.detach().to(torch::kCPU).contiguous();
}

// What a replica brings to the meeting of an optimizer's step.
struct Brought {
  Gradients gradients;
  double weight;
  OptimizerLink* link;
};

const Brought& At(const void* contribution) {
  return *static_cast<const Brought*>(contribution);
}

// The mean of the replicas' gradients of a parameter; undefined: all are absent.
torch::Tensor MeanOf(absl::Span<const void* const> contributions, size_t parameter) {
  std::vector<Contribution> parts;
  torch::Tensor some;
  for (const void* each : contributions) {
    const torch::Tensor& gradient = At(each).gradients[parameter];
    const bool counts = gradient.defined() && At(each).weight > 0;
    parts.push_back({counts ? gradient.data_ptr() : nullptr, At(each).weight});
    if (counts) some = gradient;
  }
  if (!some.defined() || parts.size() == 1) return some;
  const torch::Tensor mean = torch::empty_like(some);
  Combine(ReduceOp::kMean, DTypeOf("a gradient", some.scalar_type()),
          static_cast<uint64_t>(some.numel()), parts, mean.data_ptr());
  return mean;
}

// One group of the optimizer's.
absl::Status UpdateGroup(const OptimizerLink& link, uint32_t group, const Gradients& gradients,
                         double weight, StepTiming timing) {
  const StepParts& step = *link.step;
  std::vector<PushItem> pushed;
  std::vector<PullItem> pulled;
  for (size_t i = 0; i < link.parameters.size(); ++i) {
    if (link.groups[i] != group) continue;
    const bool present = gradients[i].defined();
    pushed.push_back({link.variables[i], present ? gradients[i].data_ptr() : nullptr,
                      present ? gradients[i].nbytes() : 0});
    pulled.push_back(step.variables->StorageOf(link.variables[i]));
  }
  WEIR_RETURN_IF_ERROR(step.deferred->Settle(group));
  if (timing == kDeferred) {
    step.deferred->Start(*step.updates, group, pushed, gradients, weight);
    return absl::OkStatus();
  }
  WEIR_RETURN_IF_ERROR(step.updates->Update(group, pushed, pulled, weight));
  step.variables->Land(pulled);
  return absl::OkStatus();
}

// For all replicas of the process, which wait.
absl::Status Update(const OptimizerLink& link, absl::Span<const void* const> contributions,
                    StepTiming timing) {
  Gradients gradients;  // hold the bytes until the pushes are acknowledged
  for (size_t i = 0; i < link.parameters.size(); ++i) gradients.push_back(MeanOf(contributions, i));
  if (link.clip.push_norm > 0) ClipNorm(link.clip.push_norm, gradients);
  double weight = 0;
  for (const void* each : contributions) weight += At(each).weight;
  for (const uint32_t group : std::set<uint32_t>(link.groups.begin(), link.groups.end())) {
    WEIR_RETURN_IF_ERROR(UpdateGroup(link, group, gradients, weight, timing));
  }
  return absl::OkStatus();
}

void CheckWrapped(const OptimizerLink* link) {
  if (link != nullptr) return;
  throw StepError(
      absl::FailedPreconditionError("an Optimizer that WrapOptimizer has not made has no Step"));
}

}  // namespace

Optimizer& Optimizer::Clip(const GradientClip& clip) {
  CheckWrapped(link_.get());
  CheckClip(link_->name, clip);
  if (link_->local != nullptr && clip.push_norm > 0) {
    throw StepError(absl::InvalidArgumentError(
        absl::StrCat("optimizer \"", link_->name, "\" is stepped by the replicas on the mean of ",
                     "all: clip that, by value or global_norm, and not what a process pushes")));
  }
  if (!link_->clip_is_the_jobs) link_->clip = clip;
  return *this;
}

torch::optim::Optimizer& Optimizer::local() {
  CheckWrapped(link_.get());
  if (link_->local != nullptr) return link_->local->optimizer();
  throw StepError(absl::FailedPreconditionError(absl::StrCat(
      "optimizer \"", link_->name, "\" runs on the servers: only one that was given to ",
      "WrapOptimizer as a whole is here")));
}

void Optimizer::ZeroGrad() {
  CheckWrapped(link_.get());
  for (torch::Tensor& parameter : link_->parameters) parameter.mutable_grad() = torch::Tensor();
}

void Optimizer::Minimize(const torch::Tensor& loss) {
  CheckWrapped(link_.get());
  ZeroGrad();
  if (!link_->parameters.empty()) {
    loss.backward({}, /*retain_graph=*/c10::nullopt, /*create_graph=*/false,
                  at::TensorList(link_->parameters));
  }
  Step(link_->local != nullptr ? kAtOnce : kDeferred);
}

void Optimizer::Step(StepTiming timing) {
  CheckWrapped(link_.get());
  StepParts& step = *link_->step;
  if (timing == kDeferred && link_->local != nullptr) {
    throw StepError(absl::InvalidArgumentError(absl::StrCat(
        "optimizer \"", link_->name, "\" is stepped by the replicas: there are no weights to wait ",
        "for later; call Step() or Minimize()")));
  }
  if (step.updates == nullptr) {
    throw StepError(absl::FailedPreconditionError("Optimizer::Step outside of a step function"));
  }
  step.weight_used = true;
  Brought brought{{}, step.weight, link_.get()};
  for (size_t i = 0; i < link_->parameters.size(); ++i) {
    torch::Tensor& parameter = link_->parameters[i];
    brought.gradients.push_back(Handed(parameter, link_->names[i]));
    parameter.mutable_grad() = torch::Tensor();
  }
  brought.gradients = link_->local != nullptr
                          ? GradientsToStepOn(*link_, std::move(brought.gradients))
                          : ClippedMean(step, link_->name, link_->clip, link_->parameters,
                                        std::move(brought.gradients));
  const absl::Status status = step.meeting->Meet(
      step.replica, absl::StrCat(link_->name, timing == kDeferred ? ".Step(kDeferred)" : ".Step()"),
      &brought, [&](absl::Span<const void* const> contributions) {
        const Brought& first = At(contributions[0]);
        return first.link->local != nullptr ? StepLocally(*first.link, first.gradients)
                                            : Update(*first.link, contributions, timing);
      });
  if (!status.ok()) throw StepError(status);
  link_->stepped = step.step + 1;
  // What autocast has made of the old weights.
  if (AutocastIsOn(at::kCPU) || AutocastIsOn(at::kCUDA)) at::autocast::clear_cache();
}

}  // namespace weir
