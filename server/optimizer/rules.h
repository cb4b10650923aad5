// SPDX-License-Identifier: Apache-2.0
// What UpdateRule::Create chooses from. One function for each optimizer, in the file of its name.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/optimizer/kernels/kernel.h"
#include "server/optimizer/update_rule.h"
#include "weir/v1/variables.pb.h"

namespace weir {

using UpdateRuleOr = absl::StatusOr<std::unique_ptr<UpdateRule>>;

// Errors of all: those of UpdateRule::Create. `dtype` is f32 or f64.
UpdateRuleOr CreateSgd(const v1::Sgd& options, v1::DType dtype, CpuLevel level);
UpdateRuleOr CreateAdagrad(const v1::Adagrad& options, v1::DType dtype, CpuLevel level);
UpdateRuleOr CreateRmsProp(const v1::RmsProp& options, v1::DType dtype, CpuLevel level);
UpdateRuleOr CreateAdam(const v1::Adam& options, v1::DType dtype, CpuLevel level);
UpdateRuleOr CreateAdamW(const v1::Adam& options, v1::DType dtype, CpuLevel level);
UpdateRuleOr CreateAverage(const v1::Average& options, v1::DType dtype);

// UpdateRule::Create for a level of choice, which this machine must be able to run.
UpdateRuleOr CreateRule(const v1::Optimizer& optimizer, v1::DType dtype, CpuLevel level);

// InvalidArgument, naming the option, where it is not finite or outside of its range.
absl::Status CheckNotNegative(absl::string_view option, double value);
absl::Status CheckBelowOne(absl::string_view option, double value);  // in [0, 1)
// eps: a zero gradient on a zero accumulator would otherwise turn the weight into NaN.
absl::Status CheckEps(absl::string_view option, double value, v1::DType dtype);

}  // namespace weir
