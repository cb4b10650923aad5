// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace weir {

// A worker of a job, by its incarnation: one life of a process. kReader: no member of any job.
enum class WorkerId : uint64_t { kReader = 0 };

}  // namespace weir
