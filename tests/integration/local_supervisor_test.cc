// SPDX-License-Identifier: Apache-2.0
// The lock of a local cluster's supervisor, and commands that find none, or one that does not hear.
#include "cli/local_supervisor.h"

#include <gmock/gmock.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/support/hasty_clock.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

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

constexpr int kMayNot = 77;

// What `command` says where no process outside has a number, as in a container, and whether it sent
// SIGTERM to its own process group; none: this machine does not let us make such a place. Empty: it
// was killed before it said anything.
std::optional<std::string> SaidInAContainer(const std::function<std::string()>& command) {
  int words[2];
  EXPECT_EQ(pipe(words), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) _exit(kMayNot);
    const pid_t inside = fork();
    if (inside == 0) {
      setsid();  // nobody else is in its process group
      sigset_t term;
      sigemptyset(&term);
      sigaddset(&term, SIGTERM);
      sigprocmask(SIG_BLOCK, &term, nullptr);  // so that one that comes can be seen
      std::string said = command();
      sigpending(&term);
      if (sigismember(&term, SIGTERM) != 0) said += "\nit signalled its own process group";
      (void)!write(words[1], said.data(), said.size());
      _exit(0);
    }
    waitpid(inside, nullptr, 0);
    _exit(0);
  }
  close(words[1]);
  std::string said;
  char buffer[4096];
  for (ssize_t size = 1; size > 0;) {
    size = read(words[0], buffer, sizeof buffer);
    if (size > 0) said.append(buffer, static_cast<size_t>(size));
  }
  close(words[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kMayNot) return std::nullopt;
  return said;
}

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
    WEIR_ASSERT_OK_AND_ASSIGN(const pid_t pid, LocalLock::Holder(folder_.path()));
    EXPECT_EQ(pid, holder.pid());
    EXPECT_THAT(LocalLock::Take(folder_.path()),
                HasStatus(absl::StatusCode::kAlreadyExists, HasSubstr(folder_.path())));
  }
  EXPECT_THAT(LocalLock::Holder(folder_.path()),
              HasStatus(absl::StatusCode::kNotFound, HasSubstr("not held")));
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

// Its number would be 0 there, and a signal to 0 goes to the caller's own process group.
TEST_F(LocalSupervisor, OneOutsideOfThisContainerIsSaidToBeThereAndNeverSignalled) {
  const LockHolder holder(folder_.path());
  const std::optional<std::string> said = SaidInAContainer([&] {
    return absl::StrJoin(
        {LocalDown(Options(), /*force=*/true).ToString(), LocalUp(Options()).status().ToString(),
         ReadLocalState(folder_.path()).status().ToString()},
        "\n");
  });
  if (!said) GTEST_SKIP() << "this user may not make a pid namespace here";
  const std::string held = absl::StrCat("FAILED_PRECONDITION: ", folder_.path(),
                                        "/lock is held on another machine or in another container");
  EXPECT_THAT(std::vector<std::string>(absl::StrSplit(*said, '\n')),
              AllOf(SizeIs(3), Each(StartsWith(held))));
}

TEST_F(LocalSupervisor, WhereNoneRunsThereIsNothingToEndOrToShow) {
  WEIR_EXPECT_OK(LocalDown(Options(), /*force=*/false));
  EXPECT_THAT(ReadLocalState(folder_.path()),
              HasStatus(absl::StatusCode::kNotFound, HasSubstr("weir local up")));
}

}  // namespace
}  // namespace weir
