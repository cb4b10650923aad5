// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "sharding/layout.h"
#include "weir/v1/job_spec.pb.h"
#include "weir/v1/variables.pb.h"
#include "weir/v1/view.pb.h"

namespace weir {

// Values that the optimizer keeps for each element: those of UpdateRule::num_slots.
uint64_t SlotsOf(const v1::Optimizer& optimizer);

// Bytes that a job takes on each server of its shard map (by index): weights, slots, and in `sync`
// the accumulators of a step, one, or one for each worker where the job is deterministic.
std::vector<uint64_t> BytesByServer(const v1::JobSpec& spec, const v1::Declaration& declaration,
                                    const Layout& layout, const v1::ShardMap& map);

}  // namespace weir
