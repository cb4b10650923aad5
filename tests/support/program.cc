// SPDX-License-Identifier: Apache-2.0
#include "tests/support/program.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/clock.h"
#include "tests/support/eventually.h"
#include "tests/support/process_cluster.h"

namespace weir {

std::unique_ptr<ChildProcess> StartProgram(const std::string& name,
                                           const std::vector<std::string>& arguments) {
  auto program =
      ChildProcess::Start({.program = ProcessCluster::Program(name), .arguments = arguments});
  EXPECT_TRUE(program.ok()) << program.status();
  return *std::move(program);
}

Answer AnswerOf(ChildProcess& program, absl::Duration timeout) {
  const auto ended = program.WaitFor(Clock::Real(), timeout);
  Answer answer{ended ? ended->code : -1, absl::StrJoin(program.ReadLines(), "\n")};
  EXPECT_TRUE(ended) << "it still runs; its output:\n" << answer.output;
  return answer;
}

bool WaitForLine(ChildProcess& program, const std::string& part, absl::Duration timeout) {
  bool found = false;
  std::string output;
  const auto look = [&] {
    const bool ended = program.Ended().has_value();  // before the lines: they may come with the end
    for (const std::string& line : program.ReadLines()) {
      found |= absl::StrContains(line, part);
      absl::StrAppend(&output, line, "\n");
    }
    return found || ended;
  };
  (void)Eventually(look, timeout);
  EXPECT_TRUE(found) << "no line with '" << part << "' in\n" << output;
  return found;
}

void UseOneThread() {
  setenv("OMP_NUM_THREADS", "1", 1);
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
  setenv("OMP_WAIT_POLICY", "PASSIVE", 1);
  setenv("GOMP_SPINCOUNT", "0", 1);
}

}  // namespace weir
