// SPDX-License-Identifier: Apache-2.0
// Duchi, Hazan, Singer: Adaptive Subgradient Methods (2011), in LibTorch's form.
#include "common/status_macros.h"
#include "server/optimizer/fused_rule.h"
#include "server/optimizer/rules.h"

namespace weir {
namespace {

template <typename T>
class AdagradStrategy {
 public:
  using Constants = AdagradConstants<T>;

  explicit AdagradStrategy(const v1::Adagrad& options)
      : rate_decay_(options.lr_decay()),
        initial_value_(static_cast<T>(options.initial_accumulator_value())) {
    constants_.weight_decay = static_cast<T>(options.weight_decay());
    constants_.eps = static_cast<T>(options.eps());
  }

  size_t num_slots() const { return 1; }
  T InitialValue(size_t) const { return initial_value_; }

  Constants ConstantsOf(const UpdateContext& context) const {
    const double updates_before = static_cast<double>(context.updates_before);
    Constants constants = constants_;
    constants.negative_rate =
        static_cast<T>(-(context.learning_rate / (1 + updates_before * rate_decay_)));
    return constants;
  }

  template <CpuLevel level>
  static void Run(const Constants& constants, const KernelSpan<T>& span) {
    RunAdagrad<level, T>(constants, span);
  }

 private:
  double rate_decay_;
  T initial_value_;
  Constants constants_;
};

}  // namespace

UpdateRuleOr CreateAdagrad(const v1::Adagrad& options, v1::DType dtype, CpuLevel level) {
  WEIR_RETURN_IF_ERROR(CheckNotNegative("adagrad.lr_decay", options.lr_decay()));
  WEIR_RETURN_IF_ERROR(CheckNotNegative("adagrad.weight_decay", options.weight_decay()));
  WEIR_RETURN_IF_ERROR(
      CheckNotNegative("adagrad.initial_accumulator_value", options.initial_accumulator_value()));
  WEIR_RETURN_IF_ERROR(CheckEps("adagrad.eps", options.eps(), dtype));
  if (dtype == v1::DTYPE_F32) {
    return std::make_unique<FusedRule<float, AdagradStrategy<float>>>(
        AdagradStrategy<float>(options), level);
  }
  return std::make_unique<FusedRule<double, AdagradStrategy<double>>>(
      AdagradStrategy<double>(options), level);
}

}  // namespace weir
