// SPDX-License-Identifier: Apache-2.0
// Checkpoints that go: first the manifest, so that they are none any more, then the servers' parts,
// which PartDropper asks for until they are gone. Within a turn, and done after it.
#pragma once

#include <cstddef>
#include <string>

#include "coordinator/job_context.h"
#include "weir/v1/coordinator.pb.h"

namespace weir {

// Of the job's intact checkpoints all but the `keep` newest. What cannot be removed now stays until
// the next call.
void DropOldCheckpoints(const JobContext& context, const std::string& job, size_t keep, Turn& turn);

// One that was begun (ManifestStore::Begin) and is not committed. What cannot be removed now goes
// at the coordinator's next start.
void DropUnfinished(const JobContext& context, const v1::Manifest& manifest, Turn& turn);

}  // namespace weir
