// SPDX-License-Identifier: Apache-2.0
// examples/client_only, as check_package.cmake has built it against the installed package.
#include <gmock/gmock.h>

#include <cstdio>

#include "tests/support/process_cluster.h"
#include "tests/support/program.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"

namespace weir {
namespace {

constexpr absl::Duration kSoon = absl::Seconds(60);

TEST(ClientOnly, TwoOfThemFitTheLineOnAClusterOfTwoServers) {
  const TempFolder folder;
  ProcessCluster::Options options;
  options.servers = 2;
  options.folder = folder.path();
  WEIR_ASSERT_OK_AND_ASSIGN(const auto cluster, ProcessCluster::Start(options));
  std::vector<std::unique_ptr<ChildProcess>> workers;
  for (int i = 0; i < 2; ++i) {
    WEIR_ASSERT_OK_AND_ASSIGN(
        workers.emplace_back(),
        ChildProcess::Start(
            {.program = WEIR_CLIENT_ONLY, .arguments = {cluster->coordinator(), "line", "2"}}));
  }
  for (const auto& worker : workers) {
    const Answer answer = AnswerOf(*worker, kSoon);
    EXPECT_EQ(answer.code, 0) << answer.output;
    double slope = 0;
    double offset = 0;
    const size_t at = answer.output.find("slope ");
    ASSERT_NE(at, std::string::npos) << answer.output;
    ASSERT_EQ(std::sscanf(answer.output.c_str() + at, "slope %lf, offset %lf", &slope, &offset), 2)
        << answer.output;
    EXPECT_NEAR(slope, 3, 0.01);
    EXPECT_NEAR(offset, 1, 0.01);
  }
}

}  // namespace
}  // namespace weir
