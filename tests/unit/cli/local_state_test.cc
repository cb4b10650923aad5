// SPDX-License-Identifier: Apache-2.0
#include "cli/local_state.h"

#include <gmock/gmock.h>

#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

TEST(LocalState, RoundTrip) {
  const LocalState state{
      .coordinator = "127.0.0.1:1",
      .processes = {{.name = "server-0", .address = "127.0.0.1:2", .pid = 7, .restarts = 3}}};
  WEIR_ASSERT_OK_AND_ASSIGN(const LocalState read, LocalStateFromJson(LocalStateToJson(state)));
  EXPECT_EQ(read.coordinator, "127.0.0.1:1");
  ASSERT_EQ(read.processes.size(), 1);
  EXPECT_EQ(read.processes[0].name, "server-0");
  EXPECT_EQ(read.processes[0].address, "127.0.0.1:2");
  EXPECT_EQ(read.processes[0].pid, 7);
  EXPECT_EQ(read.processes[0].restarts, 3);
}

TEST(LocalState, ABrokenFileIsRefused) {
  for (const char* text : {"", "{", "[]", "{\"coordinator\": 1, \"processes\": []}"}) {
    EXPECT_THAT(LocalStateFromJson(text),
                HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("state")));
  }
}

}  // namespace
}  // namespace weir
