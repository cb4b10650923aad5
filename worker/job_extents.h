// SPDX-License-Identifier: Apache-2.0
// Lengths of a job in steps and examples. The spec's train_examples must be filled in.
#pragma once

#include <cstdint>

#include "weir/v1/job_spec.pb.h"

namespace weir {

// Examples of a whole step of all workers.
uint64_t GlobalBatch(const v1::JobSpec& spec);
// Of one worker's full step: a push of so many has weight 1. Not whole where the global batch does
// not divide.
double PerWorkerBatch(const v1::JobSpec& spec);
// What a worker takes from its ranges for one step in `async`: the same, rounded down, at least 1.
uint64_t AsyncBatch(const v1::JobSpec& spec);

// `sync`: steps of one pass over the training set; the last may be short.
uint64_t StepsPerEpoch(const v1::JobSpec& spec);
// `sync`: examples that all workers have seen when this many steps are done.
uint64_t ExamplesAfterSteps(uint64_t steps, const v1::JobSpec& spec);
// `sync`: steps of the whole job.
uint64_t TotalSteps(const v1::JobSpec& spec);

// A length in examples. A step is one of all workers in `sync` and one push of one worker in
// `async`.
uint64_t ExamplesOf(const v1::Extent& extent, const v1::JobSpec& spec);
// Of the whole job.
uint64_t TotalExamples(const v1::JobSpec& spec);

}  // namespace weir
