// SPDX-License-Identifier: Apache-2.0
// Kingma, Ba: Adam (2014); Loshchilov, Hutter: Decoupled Weight Decay Regularization (2017); Reddi,
// Kale, Kumar: On the Convergence of Adam and Beyond (2018); all in LibTorch's form.
#include <cmath>

#include "common/status_macros.h"
#include "server/optimizer/fused_rule.h"
#include "server/optimizer/rules.h"

namespace weir {
namespace {

enum class WeightDecay { kOfGradient, kDecoupled };

template <typename T>
class AdamStrategy {
 public:
  using Constants = AdamConstants<T>;

  AdamStrategy(const v1::Adam& options, WeightDecay decay)
      : beta1_(options.beta1()), beta2_(options.beta2()) {
    constants_.beta1 = static_cast<T>(beta1_);
    constants_.one_minus_beta1 = static_cast<T>(1 - beta1_);
    constants_.beta2 = static_cast<T>(beta2_);
    constants_.one_minus_beta2 = static_cast<T>(1 - beta2_);
    constants_.eps = static_cast<T>(options.eps());
    constants_.amsgrad = options.amsgrad();
    if (decay == WeightDecay::kDecoupled) {
      decoupled_decay_ = options.weight_decay();
    } else {
      constants_.weight_decay = static_cast<T>(options.weight_decay());
    }
  }

  size_t num_slots() const { return constants_.amsgrad ? 3 : 2; }
  T InitialValue(size_t) const { return 0; }

  Constants ConstantsOf(const UpdateContext& context) const {
    const double step = static_cast<double>(context.updates_before + 1);
    const double bias_correction1 = 1 - std::pow(beta1_, step);
    const double bias_correction2 = 1 - std::pow(beta2_, step);
    Constants constants = constants_;
    constants.weight_factor = static_cast<T>(1 - context.learning_rate * decoupled_decay_);
    constants.negative_step_size = static_cast<T>(-(context.learning_rate / bias_correction1));
    constants.root_of_bias_correction2 = static_cast<T>(std::sqrt(bias_correction2));
    return constants;
  }

  template <CpuLevel level>
  static void Run(const Constants& constants, const KernelSpan<T>& span) {
    RunAdam<level, T>(constants, span);
  }

 private:
  double beta1_;
  double beta2_;
  double decoupled_decay_ = 0;
  Constants constants_;
};

UpdateRuleOr Create(const v1::Adam& options, WeightDecay decay, v1::DType dtype, CpuLevel level) {
  if (dtype == v1::DTYPE_F32) {
    return std::make_unique<FusedRule<float, AdamStrategy<float>>>(
        AdamStrategy<float>(options, decay), level);
  }
  return std::make_unique<FusedRule<double, AdamStrategy<double>>>(
      AdamStrategy<double>(options, decay), level);
}

}  // namespace

UpdateRuleOr CreateAdam(const v1::Adam& options, v1::DType dtype, CpuLevel level) {
  WEIR_RETURN_IF_ERROR(CheckBelowOne("adam.beta1", options.beta1()));
  WEIR_RETURN_IF_ERROR(CheckBelowOne("adam.beta2", options.beta2()));
  WEIR_RETURN_IF_ERROR(CheckNotNegative("adam.weight_decay", options.weight_decay()));
  WEIR_RETURN_IF_ERROR(CheckEps("adam.eps", options.eps(), dtype));
  return Create(options, WeightDecay::kOfGradient, dtype, level);
}

UpdateRuleOr CreateAdamW(const v1::Adam& options, v1::DType dtype, CpuLevel level) {
  WEIR_RETURN_IF_ERROR(CheckBelowOne("adamw.beta1", options.beta1()));
  WEIR_RETURN_IF_ERROR(CheckBelowOne("adamw.beta2", options.beta2()));
  WEIR_RETURN_IF_ERROR(CheckNotNegative("adamw.weight_decay", options.weight_decay()));
  WEIR_RETURN_IF_ERROR(CheckEps("adamw.eps", options.eps(), dtype));
  return Create(options, WeightDecay::kDecoupled, dtype, level);
}

}  // namespace weir
