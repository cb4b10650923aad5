// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "weir/v1/coordinator.pb.h"

namespace weir {

// The checkpoint says in ranges where its data goes on. In `sync` its step says so.
bool HasDataRanges(const v1::Manifest& source);

// Examples of the data, over all epochs, that the job had done at the checkpoint's cut: those that
// the servers have applied may be fewer, where a death has cut a step short.
uint64_t DataDone(const v1::Manifest& source);

// Where a job of this spec begins that goes on from the checkpoint: docs/checkpoints.md, "Going on
// with other steps".
v1::ResumePoint ResumePointOf(const v1::Manifest& source, const v1::JobSpec& spec);

}  // namespace weir
