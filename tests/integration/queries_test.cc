// SPDX-License-Identifier: Apache-2.0
// Commands that ask a coordinator, where there is none to ask.
#include "cli/queries.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Queries, WhereNobodyNamedAClusterAndNoneIsUpTheAnswerSaysHowToGetOneAtOnce) {
  const TempFolder empty;
  Query query;
  query.state_folder = empty.path();
  query.default_coordinator = "127.0.0.1:1";
  query.timeout_seconds = 3600;  // not waited for
  query.clock = &Clock::Real();
  EXPECT_THAT(QueryStatus(query),
              HasStatus(absl::StatusCode::kUnavailable,
                        AllOf(HasSubstr("127.0.0.1:1"), HasSubstr("weir local up"),
                              HasSubstr("--coordinator"), HasSubstr("--run-dir"))));
}

// Its coordinator is not started a second time on the same data.
TEST(Queries, ARunWhoseClusterIsHeldElsewhereIsSaidToBeThere) {
  const TempFolder run;
  std::filesystem::create_directories(run / "cluster/coordinator");
  const int file = open((run / "cluster/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  ASSERT_EQ(fcntl(file, F_OFD_SETLK, &lock), 0);  // of an open file, so of no process here
  Query query;
  query.run_folder = run.path();
  query.program_folder = run.path();
  query.clock = &Clock::Real();
  EXPECT_THAT(QueryStatus(query),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr(run / "cluster/lock")));
  close(file);
}

}  // namespace
}  // namespace weir
