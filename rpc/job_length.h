// SPDX-License-Identifier: Apache-2.0
// Batches and lengths of a job in steps and examples: what workers, coordinator and commands must
// agree on. The spec's train_examples must be filled in.
#pragma once

#include <cstdint>

#include "weir/v1/job_spec.pb.h"

namespace weir {

// So much data a worker of `async` holds, so that training outlives the coordinator's absence.
inline constexpr double kSecondsAhead = 120;

// The job has a training set and a batch to divide it by.
bool DividesData(const v1::JobSpec& spec);

// Examples of a whole step of all workers; at least 1.
uint64_t GlobalBatch(const v1::JobSpec& spec);
// Of one worker's full step: a push of so many has weight 1. Not whole where the global batch does
// not divide.
double PerWorkerBatch(const v1::JobSpec& spec);
// What a worker takes from its ranges for one step in `async`: the same, rounded down, at least 1.
uint64_t AsyncBatch(const v1::JobSpec& spec);
// Behind one update of the weights: of a step of all workers in `sync`, but for its backup workers;
// of a step of a sync group; of one push in `async`.
uint64_t UpdateBatch(const v1::JobSpec& spec);
// Of a step as the job counts its steps: one of all workers in `sync`, one of a sync group, one
// push of one worker in `async`.
uint64_t StepBatch(const v1::JobSpec& spec);

// Steps of one pass over the training set; the last may be short.
uint64_t StepsPerEpoch(const v1::JobSpec& spec);
// Examples in so many steps: each epoch's last one is as short as it is.
uint64_t ExamplesAfterSteps(uint64_t steps, const v1::JobSpec& spec);
// The other way round: steps that so many examples take, with one that is not whole.
uint64_t StepsOver(uint64_t examples, const v1::JobSpec& spec);
// Those that are whole alone, with each epoch's short last one.
uint64_t WholeStepsIn(uint64_t examples, const v1::JobSpec& spec);
// `sync`: steps of the whole job.
uint64_t TotalSteps(const v1::JobSpec& spec);

// An interval in examples, of full steps.
uint64_t ExamplesOf(const v1::Extent& extent, const v1::JobSpec& spec);
// Of the whole job.
uint64_t TotalExamples(const v1::JobSpec& spec);

}  // namespace weir
