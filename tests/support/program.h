// SPDX-License-Identifier: Apache-2.0
// Programs of the build's bin folder, as a person runs them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "cli/child_process.h"

namespace weir {

struct Answer {
  int code = -1;  // exit status; -1: it did not end
  std::string output;
};

// The test fails where it does not start.
std::unique_ptr<ChildProcess> StartProgram(const std::string& name,
                                           const std::vector<std::string>& arguments);

// Waits for the end. The test fails where it does not come within `timeout`.
Answer AnswerOf(ChildProcess& program, absl::Duration timeout);

// Reads output until a line has `part` in it. The test fails, and it returns false, where the
// program ends before that or the time runs out.
bool WaitForLine(ChildProcess& program, const std::string& part, absl::Duration timeout);

// For the programs of this test: what weir-worker sets for itself, at the price of starting twice.
void UseOneThread();

}  // namespace weir
