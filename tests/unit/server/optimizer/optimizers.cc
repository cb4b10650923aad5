// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/server/optimizer/optimizers.h"

namespace weir {
namespace {

v1::Optimizer WithRate() {
  v1::Optimizer optimizer;
  optimizer.mutable_learning_rate()->set_base(0.01);
  return optimizer;
}

void SetAdamDefaults(v1::Adam& options, double weight_decay) {
  options.set_beta1(0.9);
  options.set_beta2(0.999);
  options.set_eps(1e-8);
  options.set_weight_decay(weight_decay);
}

void AddSgd(std::vector<NamedOptimizer>& all) {
  all.push_back({"Sgd", Sgd()});
  all.push_back({"SgdDecay", Sgd()});
  all.back().optimizer.mutable_sgd()->set_weight_decay(0.1);
  all.push_back({"SgdMomentumDampening", Sgd()});
  all.back().optimizer.mutable_sgd()->set_momentum(0.9);
  all.back().optimizer.mutable_sgd()->set_dampening(0.25);
  all.push_back({"SgdMomentumDecay", all.back().optimizer});
  all.back().optimizer.mutable_sgd()->set_weight_decay(0.1);
  all.push_back({"SgdNesterov", Sgd()});
  all.back().optimizer.mutable_sgd()->set_momentum(0.9);
  all.back().optimizer.mutable_sgd()->set_nesterov(true);
  all.push_back({"SgdNesterovDecay", all.back().optimizer});
  all.back().optimizer.mutable_sgd()->set_weight_decay(0.1);
}

void AddAdagrad(std::vector<NamedOptimizer>& all) {
  all.push_back({"Adagrad", Adagrad()});
  all.push_back({"AdagradRateDecay", Adagrad()});
  all.back().optimizer.mutable_adagrad()->set_lr_decay(0.1);
  all.back().optimizer.mutable_adagrad()->set_initial_accumulator_value(0.5);
  all.push_back({"AdagradDecay", all.back().optimizer});
  all.back().optimizer.mutable_adagrad()->set_weight_decay(0.1);
}

void AddRmsProp(std::vector<NamedOptimizer>& all) {
  for (const bool decay : {false, true}) {
    for (const bool centered : {false, true}) {
      for (const bool momentum : {false, true}) {
        const std::string name = std::string("RmsProp") + (centered ? "Centered" : "") +
                                 (momentum ? "Momentum" : "") + (decay ? "Decay" : "");
        all.push_back({name, RmsProp()});
        v1::RmsProp& options = *all.back().optimizer.mutable_rmsprop();
        options.set_centered(centered);
        options.set_momentum(momentum ? 0.9 : 0);
        options.set_weight_decay(decay ? 0.1 : 0);
      }
    }
  }
}

void AddAdam(std::vector<NamedOptimizer>& all) {
  for (const bool amsgrad : {false, true}) {
    const std::string suffix = amsgrad ? "Amsgrad" : "";
    all.push_back({"Adam" + suffix, Adam()});
    all.back().optimizer.mutable_adam()->set_amsgrad(amsgrad);
    all.push_back({"AdamDecay" + suffix, all.back().optimizer});
    all.back().optimizer.mutable_adam()->set_weight_decay(0.1);
    all.push_back({"AdamW" + suffix, AdamW()});
    all.back().optimizer.mutable_adamw()->set_amsgrad(amsgrad);
  }
}

}  // namespace

v1::Optimizer Sgd() {
  v1::Optimizer optimizer = WithRate();
  optimizer.mutable_sgd();
  return optimizer;
}

v1::Optimizer Adagrad() {
  v1::Optimizer optimizer = WithRate();
  optimizer.mutable_adagrad()->set_eps(1e-10);
  return optimizer;
}

v1::Optimizer RmsProp() {
  v1::Optimizer optimizer = WithRate();
  optimizer.mutable_rmsprop()->set_alpha(0.99);
  optimizer.mutable_rmsprop()->set_eps(1e-8);
  return optimizer;
}

v1::Optimizer Adam() {
  v1::Optimizer optimizer = WithRate();
  SetAdamDefaults(*optimizer.mutable_adam(), 0);
  return optimizer;
}

v1::Optimizer AdamW() {
  v1::Optimizer optimizer = WithRate();
  SetAdamDefaults(*optimizer.mutable_adamw(), 0.01);
  return optimizer;
}

std::vector<NamedOptimizer> AllOptimizers() {
  std::vector<NamedOptimizer> all;
  AddSgd(all);
  AddAdagrad(all);
  AddRmsProp(all);
  AddAdam(all);
  return all;
}

}  // namespace weir
