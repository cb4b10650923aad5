// SPDX-License-Identifier: Apache-2.0
// The lock of a local cluster's supervisor, and commands that find none, or one that does not hear.
#include "cli/local_supervisor.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "tests/support/hasty_clock.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A process that holds a folder's lock, deaf to SIGTERM, until this ends.
class LockHolder {
 public:
  explicit LockHolder(const std::string& folder) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    pid_ = fork();
    if (pid_ == 0) {
      signal(SIGTERM, SIG_IGN);
      const auto lock = LocalLock::Take(folder);
      const char byte = lock.ok() ? 'y' : 'n';
      (void)!write(ready[1], &byte, 1);
      while (true) pause();
    }
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    EXPECT_EQ(byte, 'y');
    close(ready[0]);
    close(ready[1]);
  }
  ~LockHolder() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

class LocalSupervisor : public ::testing::Test {
 protected:
  // Time passes as it is looked at, so no command is waited for.
  LocalOptions Options() const {
    return {.state_folder = folder_.path(),
            .program_folder = folder_.path(),
            .clock = &clock_,
            .sleep = [](absl::Duration) {}};
  }

  TempFolder folder_;
  HastyClock clock_;
};

TEST_F(LocalSupervisor, TheLocksHolderIsNamedWhileItLivesAndNotAfter) {
  {
    const LockHolder holder(folder_.path());
    EXPECT_EQ(LocalLock::Holder(folder_.path()), holder.pid());
    EXPECT_THAT(LocalLock::Take(folder_.path()),
                HasStatus(absl::StatusCode::kAlreadyExists, HasSubstr(folder_.path())));
  }
  EXPECT_EQ(LocalLock::Holder(folder_.path()), std::nullopt);
}

TEST_F(LocalSupervisor, OneThatDoesNotStartIsReportedWithWhereItsWordsAre) {
  EXPECT_THAT(LocalUp(Options()),
              HasStatus(absl::StatusCode::kUnavailable,
                        AllOf(HasSubstr("does not come up"), HasSubstr("supervisor.log"))));
}

TEST_F(LocalSupervisor, OneThatServesNothingIsGivenUpInTime) {
  const LockHolder holder(folder_.path());
  EXPECT_THAT(LocalUp(Options()),
              HasStatus(absl::StatusCode::kUnavailable, HasSubstr("does not come up")));
}

TEST_F(LocalSupervisor, OneThatDoesNotEndIsNamed) {
  const LockHolder holder(folder_.path());
  EXPECT_THAT(
      LocalDown(Options(), /*force=*/false),
      HasStatus(absl::StatusCode::kDeadlineExceeded, HasSubstr(absl::StrCat(holder.pid()))));
}

TEST_F(LocalSupervisor, WhereNoneRunsThereIsNothingToEndOrToShow) {
  WEIR_EXPECT_OK(LocalDown(Options(), /*force=*/false));
  EXPECT_THAT(ReadLocalState(folder_.path()),
              HasStatus(absl::StatusCode::kNotFound, HasSubstr("weir local up")));
}

}  // namespace
}  // namespace weir
