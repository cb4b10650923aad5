// SPDX-License-Identifier: Apache-2.0
// What a job has that says nothing else, for whoever reads its file and whoever gets a spec
// without.
#pragma once

#include "absl/time/time.h"

namespace weir {

constexpr absl::Duration kDefaultOrphanTtl = absl::Hours(1);
constexpr absl::Duration kDefaultStepTimeout = absl::Minutes(10);

}  // namespace weir
