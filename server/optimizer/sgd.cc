// SPDX-License-Identifier: Apache-2.0
#include "common/status_macros.h"
#include "server/optimizer/fused_rule.h"
#include "server/optimizer/rules.h"

namespace weir {
namespace {

template <typename T>
class SgdStrategy {
 public:
  using Constants = SgdConstants<T>;

  explicit SgdStrategy(const v1::Sgd& options) {
    constants_.weight_decay = static_cast<T>(options.weight_decay());
    constants_.momentum = static_cast<T>(options.momentum());
    constants_.one_minus_dampening = static_cast<T>(1 - options.dampening());
    constants_.nesterov = options.nesterov();
  }

  size_t num_slots() const { return constants_.momentum == 0 ? 0 : 1; }
  T InitialValue(size_t) const { return 0; }

  Constants ConstantsOf(const UpdateContext& context) const {
    Constants constants = constants_;
    constants.negative_rate = static_cast<T>(-context.learning_rate);
    constants.first_update = context.updates_before == 0;
    return constants;
  }

  template <CpuLevel level>
  static void Run(const Constants& constants, const KernelSpan<T>& span) {
    RunSgd<level, T>(constants, span);
  }

 private:
  Constants constants_;
};

}  // namespace

UpdateRuleOr CreateSgd(const v1::Sgd& options, v1::DType dtype, CpuLevel level) {
  WEIR_RETURN_IF_ERROR(CheckNotNegative("sgd.momentum", options.momentum()));
  WEIR_RETURN_IF_ERROR(CheckNotNegative("sgd.weight_decay", options.weight_decay()));
  WEIR_RETURN_IF_ERROR(CheckNotNegative("sgd.dampening", options.dampening()));
  if (options.nesterov() && (options.momentum() == 0 || options.dampening() != 0)) {
    return absl::InvalidArgumentError("sgd.nesterov needs a momentum above 0 and a dampening of 0");
  }
  if (dtype == v1::DTYPE_F32) {
    return std::make_unique<FusedRule<float, SgdStrategy<float>>>(SgdStrategy<float>(options),
                                                                  level);
  }
  return std::make_unique<FusedRule<double, SgdStrategy<double>>>(SgdStrategy<double>(options),
                                                                  level);
}

}  // namespace weir
