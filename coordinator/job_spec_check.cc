// SPDX-License-Identifier: Apache-2.0
#include "coordinator/job_spec_check.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "checkpoint/manifest.h"
#include "common/status_macros.h"
#include "rpc/job_defaults.h"
#include "rpc/regime.h"

namespace weir {
namespace {

constexpr uint64_t kMostWorkers = 65536;
// Of a set or a length: sums and small multiples fit 64 bits, and a double holds it exactly.
constexpr uint64_t kMostExamples = 1'000'000'000'000'000;
constexpr uint64_t kMostBatch = 10'000'000'000;

absl::Status TooMany(absl::string_view key, uint64_t most, absl::string_view of) {
  return absl::InvalidArgumentError(absl::StrCat(key, ": at most ", most, " ", of));
}

// In floating point: the exact products may not fit.
double ApproximateExamples(const v1::Extent& extent, const v1::JobSpec& spec) {
  const double set = static_cast<double>(spec.train_examples());
  switch (extent.unit_case()) {
    case v1::Extent::kEpochs:
      return extent.epochs() * std::max(1.0, set);
    case v1::Extent::kSteps: {
      const auto& batch = spec.data().batch();
      const uint64_t step =
          batch.has_global() ? batch.global() : batch.per_replica() * spec.workers();
      return static_cast<double>(extent.steps()) * static_cast<double>(std::max<uint64_t>(1, step));
    }
    case v1::Extent::kExamples:
      return static_cast<double>(extent.examples());
    default:
      return 0;
  }
}

absl::Status CheckSizes(const v1::JobSpec& spec) {
  if (spec.workers() > kMostWorkers) return TooMany("workers", kMostWorkers, "workers");
  if (spec.train_examples() > kMostExamples) {
    return TooMany("data.train", kMostExamples, "examples");
  }
  const auto& batch = spec.data().batch();
  if (std::max(batch.global(), batch.per_replica()) > kMostBatch) {
    return TooMany("data.batch", kMostBatch, "examples");
  }
  const double most = static_cast<double>(kMostExamples);
  if (ApproximateExamples(spec.length(), spec) > most) {
    return TooMany("length", kMostExamples, "examples in all");
  }
  if (ApproximateExamples(spec.checkpoint().every(), spec) > most) {
    return TooMany("checkpoint.every", kMostExamples, "examples");
  }
  return absl::OkStatus();
}

absl::Status CheckExtent(absl::string_view key, const v1::Extent& extent, bool seconds_allowed) {
  switch (extent.unit_case()) {
    case v1::Extent::kEpochs:
      if (std::isfinite(extent.epochs()) && extent.epochs() > 0) return absl::OkStatus();
      break;
    case v1::Extent::kSteps:
      if (extent.steps() > 0) return absl::OkStatus();
      break;
    case v1::Extent::kExamples:
      if (extent.examples() > 0) return absl::OkStatus();
      break;
    case v1::Extent::kSeconds:
      if (!seconds_allowed) {
        return absl::InvalidArgumentError(
            absl::StrCat(key, ": a length is given in epochs, steps or examples, not in seconds"));
      }
      if (std::isfinite(extent.seconds()) && extent.seconds() > 0) return absl::OkStatus();
      break;
    case v1::Extent::UNIT_NOT_SET:
      return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(key, ": expected a number above zero"));
}

}  // namespace

absl::Status CheckJobSpec(const v1::JobSpec& spec) {
  WEIR_RETURN_IF_ERROR(CheckFolderName("name", spec.name()));
  if (spec.workers() == 0) return absl::InvalidArgumentError("workers: expected at least 1");
  if (spec.min_workers() > spec.workers()) {
    return absl::InvalidArgumentError(absl::StrCat("min_workers: ", spec.min_workers(),
                                                   " is more than workers, ", spec.workers()));
  }
  constexpr uint32_t kMostReplicas = 65536;
  if (spec.replicas_per_worker() > kMostReplicas) {
    return absl::InvalidArgumentError(absl::StrCat("replicas_per_worker: expected at most ",
                                                   kMostReplicas, ", found ",
                                                   spec.replicas_per_worker()));
  }
  WEIR_RETURN_IF_ERROR(CheckRegime(spec));
  WEIR_RETURN_IF_ERROR(CheckExtent("length", spec.length(), false));
  WEIR_RETURN_IF_ERROR(CheckExtent("checkpoint.every", spec.checkpoint().every(), true));
  return CheckSizes(spec);
}

uint32_t MinWorkers(const v1::JobSpec& spec) {
  return spec.min_workers() == 0 ? spec.workers() : spec.min_workers();
}

absl::Duration StepTimeout(const v1::JobSpec& spec) {
  return spec.step_timeout_ms() == 0 ? kDefaultStepTimeout
                                     : absl::Milliseconds(spec.step_timeout_ms());
}
absl::Duration OrphanTtl(const v1::JobSpec& spec) {
  return spec.orphan_ttl_ms() == 0 ? kDefaultOrphanTtl : absl::Milliseconds(spec.orphan_ttl_ms());
}

}  // namespace weir
