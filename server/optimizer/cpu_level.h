// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/optimizer/kernels/kernel.h"

namespace weir {

// The highest level that this machine can run.
CpuLevel BestCpuLevel();

}  // namespace weir
