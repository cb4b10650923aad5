// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker/replica_parts.h"

namespace weir {

// At the end of a step function, called by all replicas: those targets that are due take from their
// sources. Throws StepError: the errors of GroupUpdates::Update.
void UpdateTargets(ReplicaParts& parts);

}  // namespace weir
