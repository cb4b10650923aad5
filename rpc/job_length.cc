// SPDX-License-Identifier: Apache-2.0
#include "rpc/job_length.h"

#include <algorithm>
#include <cmath>

#include "rpc/regime.h"

namespace weir {
namespace {

uint64_t CeilDivide(uint64_t a, uint64_t b) {
  return a / b + (a % b == 0 ? 0 : 1);
}

// Guards a product against the noise of 0.1 * 60000 and the like; no number is undefined.
uint64_t RoundUp(double value) {
  constexpr double kMost = 1e18;
  if (!(value > 0)) return 0;
  return static_cast<uint64_t>(std::ceil(std::min(value, kMost) - 1e-6));
}

}  // namespace

bool DividesData(const v1::JobSpec& spec) {
  const auto& batch = spec.data().batch();
  return spec.train_examples() > 0 && (batch.global() > 0 || batch.per_replica() > 0);
}

uint64_t GlobalBatch(const v1::JobSpec& spec) {
  const auto& batch = spec.data().batch();
  return std::max<uint64_t>(
      1, batch.has_per_replica() ? batch.per_replica() * Replicas(spec) : batch.global());
}

double PerWorkerBatch(const v1::JobSpec& spec) {
  return static_cast<double>(GlobalBatch(spec)) /
         static_cast<double>(std::max<uint64_t>(1, spec.workers()));
}

uint64_t AsyncBatch(const v1::JobSpec& spec) {
  return std::max<uint64_t>(1, GlobalBatch(spec) / std::max<uint64_t>(1, spec.workers()));
}

uint64_t UpdateBatch(const v1::JobSpec& spec) {
  const uint32_t backup = spec.regime().backup_workers();
  if (!IsSync(spec) || backup == 0) return StepBatch(spec);
  return RoundUp(PerWorkerBatch(spec) * (std::max(spec.workers(), backup + 1) - backup));
}

uint64_t StepBatch(const v1::JobSpec& spec) {
  if (IsSync(spec)) return GlobalBatch(spec);
  const uint64_t groups = SyncGroups(spec);
  return groups == 0 ? AsyncBatch(spec) : std::max<uint64_t>(1, GlobalBatch(spec) / groups);
}

uint64_t StepsPerEpoch(const v1::JobSpec& spec) {
  return CeilDivide(spec.train_examples(), StepBatch(spec));
}

uint64_t ExamplesAfterSteps(uint64_t steps, const v1::JobSpec& spec) {
  const uint64_t per_epoch = StepsPerEpoch(spec);
  if (per_epoch == 0) return steps * StepBatch(spec);
  return steps / per_epoch * spec.train_examples() +
         std::min(spec.train_examples(), steps % per_epoch * StepBatch(spec));
}

uint64_t StepsOver(uint64_t examples, const v1::JobSpec& spec) {
  const uint64_t set = spec.train_examples();
  if (set == 0) return CeilDivide(examples, StepBatch(spec));
  return examples / set * StepsPerEpoch(spec) + CeilDivide(examples % set, StepBatch(spec));
}

uint64_t WholeStepsIn(uint64_t examples, const v1::JobSpec& spec) {
  const uint64_t set = spec.train_examples();
  if (set == 0) return examples / StepBatch(spec);
  return examples / set * StepsPerEpoch(spec) + examples % set / StepBatch(spec);
}

uint64_t TotalSteps(const v1::JobSpec& spec) {
  const v1::Extent& length = spec.length();
  if (length.has_steps()) return length.steps();
  const uint64_t per_epoch = StepsPerEpoch(spec);
  if (length.has_epochs()) return RoundUp(length.epochs() * static_cast<double>(per_epoch));
  if (spec.train_examples() == 0) return 0;
  return StepsOver(length.examples(), spec);
}

uint64_t ExamplesOf(const v1::Extent& extent, const v1::JobSpec& spec) {
  if (extent.has_examples()) return extent.examples();
  if (extent.has_epochs()) {
    return RoundUp(extent.epochs() * static_cast<double>(spec.train_examples()));
  }
  return extent.steps() * StepBatch(spec);
}

uint64_t TotalExamples(const v1::JobSpec& spec) {
  const v1::Extent& length = spec.length();
  return length.has_steps() ? ExamplesAfterSteps(length.steps(), spec) : ExamplesOf(length, spec);
}

}  // namespace weir
