// SPDX-License-Identifier: Apache-2.0
#include "server/optimizer/update_rule.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/dtype.h"
#include "server/optimizer/cpu_level.h"
#include "server/optimizer/rules.h"
#include "server/optimizer/schedule.h"

namespace weir {

absl::Status CheckNotNegative(absl::string_view option, double value) {
  if (std::isfinite(value) && value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, " is ", value, "; it must be a finite number, 0 or above"));
}

absl::Status CheckBelowOne(absl::string_view option, double value) {
  if (value >= 0 && value < 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, " is ", value, "; it must be 0 or above and below 1"));
}

absl::Status CheckEps(absl::string_view option, double value, v1::DType dtype) {
  const double least = dtype == v1::DTYPE_F32 ? std::numeric_limits<float>::min()
                                              : std::numeric_limits<double>::min();
  if (std::isfinite(value) && value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, " is ", value, "; it must be a finite number of at least ", least,
                   ", or the first zero gradient would divide by zero"));
}

UpdateRuleOr CreateRule(const v1::Optimizer& optimizer, v1::DType dtype, CpuLevel level) {
  if (!IsFloating(dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("an optimizer updates variables of f32 or f64, not ", v1::DType_Name(dtype),
                     "; leave the variable without a group to make it state"));
  }
  WEIR_RETURN_IF_ERROR(CheckSchedule(optimizer.learning_rate()));
  switch (optimizer.kind_case()) {
    case v1::Optimizer::kSgd:
      return CreateSgd(optimizer.sgd(), dtype, level);
    case v1::Optimizer::kAdagrad:
      return CreateAdagrad(optimizer.adagrad(), dtype, level);
    case v1::Optimizer::kRmsprop:
      return CreateRmsProp(optimizer.rmsprop(), dtype, level);
    case v1::Optimizer::kAdam:
      return CreateAdam(optimizer.adam(), dtype, level);
    case v1::Optimizer::kAdamw:
      return CreateAdamW(optimizer.adamw(), dtype, level);
    case v1::Optimizer::kAverage:
      return CreateAverage(optimizer.average(), dtype);
    case v1::Optimizer::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "optimizer names no kind that is known here: sgd, adagrad, rmsprop, adam, "
      "adamw or average");
}

absl::StatusOr<std::unique_ptr<UpdateRule>> UpdateRule::Create(const v1::Optimizer& optimizer,
                                                               v1::DType dtype) {
  return CreateRule(optimizer, dtype, BestCpuLevel());
}

}  // namespace weir
