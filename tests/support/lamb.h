// SPDX-License-Identifier: Apache-2.0
// An optimizer as a user writes one: You et al. 2020, "Large Batch Optimization for Deep Learning",
// algorithm 2.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/serialize.h>
#include <torch/serialize/archive.h>
#include <torch/utils.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/libtorch_names.h"

namespace weir {

struct LambOptions : public torch::optim::OptimizerCloneableOptions<LambOptions> {
  explicit LambOptions(double rate = 0.01) : lr_(rate) {}
  TORCH_ARG(double, lr);
  TORCH_ARG(double, weight_decay) = 0.01;

 public:
  double get_lr() const override { return lr(); }
  void set_lr(double rate) override { lr(rate); }
};

struct LambParamState : public torch::optim::OptimizerCloneableParamState<LambParamState> {
  TORCH_ARG(int64_t, step) = 0;
  TORCH_ARG(torch::Tensor, mean);
  TORCH_ARG(torch::Tensor, square);

 public:
  void serialize(torch::serialize::InputArchive& archive) override {
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(int64_t, step);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(torch::Tensor, mean);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(torch::Tensor, square);
  }
  void serialize(torch::serialize::OutputArchive& archive) const override {
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(step);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(mean);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(square);
  }
};

class Lamb : public torch::optim::Optimizer {
 public:
  explicit Lamb(std::vector<torch::Tensor> parameters, LambOptions options = LambOptions())
      : Optimizer({torch::optim::OptimizerParamGroup(std::move(parameters))},
                  std::make_unique<LambOptions>(options)) {}

  torch::Tensor step(LossClosure = nullptr) override {
    const torch::NoGradGuard without_gradients;
    for (torch::optim::OptimizerParamGroup& group : param_groups_) {
      const auto& options = static_cast<const LambOptions&>(group.options());
      for (torch::Tensor& parameter : group.params()) {
        if (parameter.grad().defined()) Update(options, parameter);
      }
    }
    return {};
  }

 private:
  void Update(const LambOptions& options, torch::Tensor& parameter) {
    auto& known = state_[StateKeyOf(parameter)];
    if (known == nullptr) {
      auto fresh = std::make_unique<LambParamState>();
      fresh->mean(torch::zeros_like(parameter)).square(torch::zeros_like(parameter));
      known = std::move(fresh);
    }
    auto& state = static_cast<LambParamState&>(*known);
    state.step(state.step() + 1);
    state.mean().mul_(0.9).add_(parameter.grad(), 0.1);
    state.square().mul_(0.999).addcmul_(parameter.grad(), parameter.grad(), 0.001);
    const auto steps = static_cast<double>(state.step());
    const torch::Tensor mean = state.mean() / (1 - std::pow(0.9, steps));
    const torch::Tensor root = (state.square() / (1 - std::pow(0.999, steps))).sqrt();
    const torch::Tensor towards = mean / (root + 1e-6) + options.weight_decay() * parameter;
    const double of_weights = parameter.norm().item<double>();
    const double of_step = towards.norm().item<double>();
    const double trust = of_weights > 0 && of_step > 0 ? of_weights / of_step : 1;
    parameter.add_(towards, -options.lr() * trust);
  }
};

}  // namespace weir
