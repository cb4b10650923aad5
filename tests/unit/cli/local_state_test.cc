// SPDX-License-Identifier: Apache-2.0
#include "cli/local_state.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"

namespace weir {
namespace {

using ::testing::AllOf;
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

// What locks of other machines look like: the number is negative. A signal to -1 goes to everybody.
TEST(LocalLock, AHolderWithoutANumberHereIsAnErrorThatNamesTheFile) {
  const TempFolder folder;
  const int file = open((folder / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  ASSERT_EQ(fcntl(file, F_OFD_SETLK, &lock), 0);  // of an open file, so of no process
  EXPECT_THAT(
      LocalLock::Holder(folder.path()),
      HasStatus(absl::StatusCode::kFailedPrecondition,
                AllOf(HasSubstr(folder / "lock"), HasSubstr("machine"), HasSubstr("container"))));
  close(file);
  EXPECT_THAT(LocalLock::Holder(folder.path()),
              HasStatus(absl::StatusCode::kNotFound, HasSubstr("not held")));
}

}  // namespace
}  // namespace weir
