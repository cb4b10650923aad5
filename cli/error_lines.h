// SPDX-License-Identifier: Apache-2.0
// Which lines of a program's output tell an error. The format of the log: common/logging.
#pragma once

#include <string>
#include <vector>

namespace weir {

// The text of an error: of a line of the log at error level, or of the last words of the program
// of this name ("weir-worker: TEXT"). Empty: the line tells none.
std::string ErrorOf(const std::string& line, const std::string& program = "weir-worker");

// What says why a program ended: its newest errors in the log, and what was said outside of the
// log, as by the runtime when it aborts. At most three lines, oldest first.
std::vector<std::string> LastErrors(const std::vector<std::string>& output);

}  // namespace weir
