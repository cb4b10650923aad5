// SPDX-License-Identifier: Apache-2.0
#include "bench/child_run.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/child_process.h"
#include "common/clock.h"
#include "common/status_macros.h"

namespace weir::bench {

std::string ProgramFolder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

absl::StatusOr<std::vector<std::string>> RunToEnd(const std::string& program,
                                                  std::vector<std::string> arguments,
                                                  absl::Duration timeout) {
  WEIR_ASSIGN_OR_RETURN(const auto child,
                        ChildProcess::Start({.program = ProgramFolder() + "/" + program,
                                             .arguments = std::move(arguments)}));
  const std::optional<ExitState> state = child->WaitFor(Clock::Real(), timeout);
  std::vector<std::string> lines = child->ReadLines();
  if (state.has_value() && state->ok()) return lines;
  const auto first = lines.end() - std::min<std::ptrdiff_t>(5, std::ssize(lines));
  const std::string last_lines = absl::StrJoin(first, lines.end(), " | ");
  if (!state.has_value()) {
    return absl::DeadlineExceededError(absl::StrCat(program, " still runs: ", last_lines));
  }
  return absl::InternalError(
      absl::StrCat(program, " ended with ", state->ToString(), ": ", last_lines));
}

}  // namespace weir::bench
