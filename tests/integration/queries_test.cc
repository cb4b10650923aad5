// SPDX-License-Identifier: Apache-2.0
// Commands that ask a coordinator, where there is none.
#include "cli/queries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace weir
