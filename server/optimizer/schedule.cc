// SPDX-License-Identifier: Apache-2.0
#include "server/optimizer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace weir {
namespace {

// How much of the way from the end of warm-up to `total` lies behind, in [0, 1].
double Progress(const v1::Schedule& schedule, uint64_t total, uint64_t examples) {
  const uint64_t start = schedule.warm_up_examples();
  if (examples >= total) return 1;
  if (examples <= start) return 0;
  return static_cast<double>(examples - start) / static_cast<double>(total - start);
}

double RateAt(const v1::Schedule& schedule, uint64_t examples) {
  const double base = schedule.base();
  switch (schedule.shape_case()) {
    case v1::Schedule::kStep: {
      const auto& boundaries = schedule.step().boundary_examples();
      const auto passed = std::upper_bound(boundaries.begin(), boundaries.end(), examples);
      return base *
             std::pow(schedule.step().factor(), static_cast<double>(passed - boundaries.begin()));
    }
    case v1::Schedule::kCosine: {
      const double t = Progress(schedule, schedule.cosine().total_examples(), examples);
      const double final_rate = schedule.cosine().final_rate();
      return final_rate + (base - final_rate) * (1 + std::cos(std::numbers::pi * t)) / 2;
    }
    case v1::Schedule::kLinear: {
      const double t = Progress(schedule, schedule.linear().total_examples(), examples);
      return base + (schedule.linear().final_rate() - base) * t;
    }
    case v1::Schedule::SHAPE_NOT_SET:
      break;
  }
  return base;
}

absl::Status CheckRate(absl::string_view field, double rate) {
  if (std::isfinite(rate) && rate >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("learning_rate.", field, " is ", rate,
                                                 "; it must be a finite number, 0 or above"));
}

absl::Status CheckTotal(absl::string_view field, uint64_t total, uint64_t warm_up) {
  if (total > 0 && total >= warm_up) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("learning_rate.", field, " is ", total,
                   "; it must be above 0 and not below warm_up_examples, which is ", warm_up));
}

absl::Status CheckStep(const v1::Schedule::Step& step) {
  WEIR_RETURN_IF_ERROR(CheckRate("step.factor", step.factor()));
  for (int i = 1; i < step.boundary_examples_size(); ++i) {
    if (step.boundary_examples(i) <= step.boundary_examples(i - 1)) {
      return absl::InvalidArgumentError(
          absl::StrCat("learning_rate.step.boundary_examples must rise, but ",
                       step.boundary_examples(i), " follows ", step.boundary_examples(i - 1)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

double LearningRate(const v1::Schedule& schedule, uint64_t examples_before, uint64_t examples) {
  const double rate = RateAt(schedule, examples_before);
  const uint64_t warm_up = schedule.warm_up_examples();
  if (examples_before >= warm_up) return rate;
  const double behind = static_cast<double>(examples_before) + static_cast<double>(examples);
  return rate * std::min(1.0, behind / static_cast<double>(warm_up));
}

absl::Status CheckSchedule(const v1::Schedule& schedule) {
  WEIR_RETURN_IF_ERROR(CheckRate("base", schedule.base()));
  switch (schedule.shape_case()) {
    case v1::Schedule::kStep:
      return CheckStep(schedule.step());
    case v1::Schedule::kCosine:
      WEIR_RETURN_IF_ERROR(CheckRate("cosine.final_rate", schedule.cosine().final_rate()));
      return CheckTotal("cosine.total_examples", schedule.cosine().total_examples(),
                        schedule.warm_up_examples());
    case v1::Schedule::kLinear:
      WEIR_RETURN_IF_ERROR(CheckRate("linear.final_rate", schedule.linear().final_rate()));
      return CheckTotal("linear.total_examples", schedule.linear().total_examples(),
                        schedule.warm_up_examples());
    case v1::Schedule::SHAPE_NOT_SET:
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

}  // namespace weir
