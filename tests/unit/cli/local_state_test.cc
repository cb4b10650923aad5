// SPDX-License-Identifier: Apache-2.0
#include "cli/local_state.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

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

TEST(LocalLock, ItsHolderIsNamedWhileItLivesAndNotAfter) {
  const std::string folder = ::testing::TempDir() + "/local_lock";
  int go[2];
  int ready[2];
  ASSERT_EQ(pipe(go), 0);
  ASSERT_EQ(pipe(ready), 0);
  const pid_t holder = fork();
  if (holder == 0) {
    close(go[1]);
    const auto lock = LocalLock::Take(folder);
    char byte = lock.ok() ? 'y' : 'n';
    (void)!write(ready[1], &byte, 1);
    (void)!read(go[0], &byte, 1);  // until the test closes its end
    _exit(0);
  }
  close(go[0]);
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  EXPECT_EQ(LocalLock::Holder(folder), holder);
  EXPECT_THAT(LocalLock::Take(folder),
              HasStatus(absl::StatusCode::kAlreadyExists, HasSubstr(folder)));
  close(go[1]);
  waitpid(holder, nullptr, 0);
  EXPECT_EQ(LocalLock::Holder(folder), std::nullopt);
}

}  // namespace
}  // namespace weir
