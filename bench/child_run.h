// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace weir::bench {

// The folder that this program lies in.
std::string ProgramFolder();

// Runs `program` of that folder to its end and returns what it printed.
// Errors: NotFound - no such program; DeadlineExceeded - it was killed after `timeout`; Internal -
// it failed; its last lines are in the message.
absl::StatusOr<std::vector<std::string>> RunToEnd(const std::string& program,
                                                  std::vector<std::string> arguments,
                                                  absl::Duration timeout);

}  // namespace weir::bench
