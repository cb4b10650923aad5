// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace weir {

// Sets spdlog up for a program: one line an event on standard error, "time level program message".
// `level` is one of trace, debug, info, warn, error, off; anything else means info.
void SetUpLogging(const std::string& program, const std::string& level);

}  // namespace weir
