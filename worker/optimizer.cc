// SPDX-License-Identifier: Apache-2.0
#include "weir/optimizer.h"

#include "absl/strings/str_cat.h"
#include "worker/replica_parts.h"

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
  return gradient.contiguous();
}

}  // namespace

void Optimizer::ZeroGrad() {
  for (torch::Tensor& parameter : link_->parameters) parameter.mutable_grad() = torch::Tensor();
}

void Optimizer::Step() {
  if (link_->updates == nullptr) {
    throw StepError(absl::FailedPreconditionError("Optimizer::Step outside of a step function"));
  }
  std::vector<torch::Tensor> gradients;  // hold the bytes until the push is acknowledged
  std::vector<PushItem> pushed;
  std::vector<PullItem> pulled;
  for (size_t i = 0; i < link_->parameters.size(); ++i) {
    torch::Tensor& parameter = link_->parameters[i];
    gradients.push_back(Handed(parameter, link_->names[i]));
    parameter.mutable_grad() = torch::Tensor();
    const bool present = gradients.back().defined();
    pushed.push_back({link_->variables[i], present ? gradients.back().data_ptr() : nullptr,
                      present ? gradients.back().nbytes() : 0});
    pulled.push_back({link_->variables[i], parameter.data_ptr(), parameter.nbytes()});
  }
  const absl::Status status = link_->updates->Update(link_->group, pushed, pulled);
  if (!status.ok()) throw StepError(status);
}

}  // namespace weir
