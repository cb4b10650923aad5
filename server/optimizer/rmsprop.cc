// SPDX-License-Identifier: Apache-2.0
// Hinton's lecture 6e (2012), centered as in Graves: Generating Sequences With Recurrent Neural
// Networks (2013), in LibTorch's form: eps is added behind the root.
#include "common/status_macros.h"
#include "server/optimizer/fused_rule.h"
#include "server/optimizer/rules.h"

namespace weir {
namespace {

template <typename T>
class RmsPropStrategy {
 public:
  using Constants = RmsPropConstants<T>;

  explicit RmsPropStrategy(const v1::RmsProp& options) {
    constants_.weight_decay = static_cast<T>(options.weight_decay());
    constants_.alpha = static_cast<T>(options.alpha());
    constants_.one_minus_alpha = static_cast<T>(1 - options.alpha());
    constants_.eps = static_cast<T>(options.eps());
    constants_.momentum = static_cast<T>(options.momentum());
    constants_.centered = options.centered();
  }

  size_t num_slots() const {
    return 1 + (constants_.centered ? 1 : 0) + (constants_.momentum != 0 ? 1 : 0);
  }
  T InitialValue(size_t) const { return 0; }

  Constants ConstantsOf(const UpdateContext& context) const {
    Constants constants = constants_;
    constants.negative_rate = static_cast<T>(-context.learning_rate);
    return constants;
  }

  template <CpuLevel level>
  static void Run(const Constants& constants, const KernelSpan<T>& span) {
    RunRmsProp<level, T>(constants, span);
  }

 private:
  Constants constants_;
};

}  // namespace

UpdateRuleOr CreateRmsProp(const v1::RmsProp& options, v1::DType dtype, CpuLevel level) {
  WEIR_RETURN_IF_ERROR(CheckBelowOne("rmsprop.alpha", options.alpha()));
  WEIR_RETURN_IF_ERROR(CheckNotNegative("rmsprop.weight_decay", options.weight_decay()));
  WEIR_RETURN_IF_ERROR(CheckNotNegative("rmsprop.momentum", options.momentum()));
  WEIR_RETURN_IF_ERROR(CheckEps("rmsprop.eps", options.eps(), dtype));
  if (dtype == v1::DTYPE_F32) {
    return std::make_unique<FusedRule<float, RmsPropStrategy<float>>>(
        RmsPropStrategy<float>(options), level);
  }
  return std::make_unique<FusedRule<double, RmsPropStrategy<double>>>(
      RmsPropStrategy<double>(options), level);
}

}  // namespace weir
