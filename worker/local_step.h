// SPDX-License-Identifier: Apache-2.0
// Steps of optimizers that the replicas make themselves: docs/decisions/0010-local-optimizers.md.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/gradient_clip.h"
#include "worker/replica_parts.h"
#include "worker/replica_runner.h"

namespace weir {

// At the beginning of a step, called by all replicas in sync: where a worker is new to the job it
// gets weights and what local optimizers keep from one that is not. Throws StepError: a
// collective's.
void ShareLocalOptimizers(ReplicaParts& parts);

// What a local optimizer steps on, equal on all replicas in sync, which call it together: the mean
// of their gradients, clipped. Throws StepError: a collective's; InvalidArgument - the mean is not
// finite.
Gradients GradientsToStepOn(const OptimizerLink& link, Gradients gradients);

// For all replicas of the process, which wait; the link is that of the first.
absl::Status StepLocally(OptimizerLink& link, const Gradients& gradients);

// While no replica computes; the link is that of the process's first one. Errors:
// FailedPrecondition - it keeps other things than after its first step.
absl::StatusOr<LocalValues> LocalValuesOf(const OptimizerLink& link);

}  // namespace weir
