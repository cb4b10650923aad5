// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace weir {

std::string HumanCount(uint64_t count);  // "1,234,567"
// "1 server", "2,000 servers"
std::string HumanCount(uint64_t count, absl::string_view noun);
std::string HumanBytes(uint64_t bytes);  // "312 B", "1.5 GiB"
// "2026-01-31 12:00:00" in local time; "-" for 0.
std::string HumanTime(uint64_t unix_ms);

}  // namespace weir
