// SPDX-License-Identifier: Apache-2.0
// What a job's regime means, for workers, coordinator, servers and commands: docs/regimes.md.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "weir/v1/job_spec.pb.h"

namespace weir {

// All workers are in one step. Else each has steps of its own, and data comes in ranges.
bool IsSync(const v1::JobSpec& spec);

// Groups that are in step when all workers are there; 0: in no regime but SYNC_GROUPS.
uint64_t SyncGroups(const v1::JobSpec& spec);

// Replicas of the job when all of its workers are there.
uint64_t Replicas(const v1::JobSpec& spec);

// "sync", "sync, 1 backup worker", "async, rate 1/staleness", "bounded_staleness 3",
// "sync_group_size 2".
std::string RegimeText(const v1::JobSpec& spec);

// Errors: InvalidArgument - "KEY: " and why the regime's options make no sense together, KEY being
// one of the job file's.
absl::Status CheckRegime(const v1::JobSpec& spec);

}  // namespace weir
