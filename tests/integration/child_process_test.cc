// SPDX-License-Identifier: Apache-2.0
#include "cli/child_process.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "tests/support/hasty_clock.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(20);

std::unique_ptr<ChildProcess> Shell(const std::string& script) {
  auto child = ChildProcess::Start({.program = "/bin/sh", .arguments = {"-c", script}});
  EXPECT_THAT(child, IsOk());
  return *std::move(child);
}

TEST(ChildProcess, ItsOutputComesInLinesAndItsExitStatusIsReported) {
  auto child = Shell("echo one; echo two >&2; printf three; exit 3");
  const auto state = child->WaitFor(Clock::Real(), kLong);
  ASSERT_TRUE(state);
  EXPECT_EQ(state->code, 3);
  EXPECT_EQ(state->ToString(), "exit status 3");
  EXPECT_THAT(child->ReadLines(), ElementsAre("one", "two", "three"));
}

TEST(ChildProcess, ArgumentsReachItUnchanged) {
  auto child = ChildProcess::Start(
      {.program = "/bin/sh", .arguments = {"-c", "printf '%s\\n' \"$@\"", "sh", "a b", "", "$x'"}});
  WEIR_ASSERT_OK(child);
  ASSERT_TRUE((*child)->WaitFor(Clock::Real(), kLong));
  EXPECT_THAT((*child)->ReadLines(), ElementsAre("a b", "", "$x'"));
}

TEST(ChildProcess, ASignalThatEndsItIsNamed) {
  auto child = Shell("kill -9 $$");
  const auto state = child->WaitFor(Clock::Real(), kLong);
  ASSERT_TRUE(state);
  EXPECT_EQ(state->signal, SIGKILL);
  EXPECT_THAT(state->ToString(), HasSubstr("signal 9"));
}

// A parent that ignores SIGCHLD, as shells and containers may leave it to us, has no children to
// ask.
TEST(ChildProcess, AnEndOfWhichNothingCanBeKnownIsNoSuccess) {
  const auto before = signal(SIGCHLD, SIG_IGN);
  auto child = Shell("exit 3");
  const auto state = child->WaitFor(Clock::Real(), kLong);
  signal(SIGCHLD, before);
  ASSERT_TRUE(state);
  EXPECT_FALSE(state->ok());
  EXPECT_EQ(state->ToString(), "an exit status that the system did not keep");
}

TEST(ChildProcess, ItBeginsWithoutItsParentsBlockedAndIgnoredSignals) {
  sigset_t term;
  sigset_t before;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &term, &before);
  const auto pipe_before = signal(SIGPIPE, SIG_IGN);
  for (const int number : {SIGTERM, SIGPIPE}) {
    auto child = Shell(absl::StrCat("kill -", number, " $$; exit 0"));
    const auto state = child->WaitFor(Clock::Real(), kLong);
    ASSERT_TRUE(state);
    EXPECT_EQ(state->signal, number);
  }
  signal(SIGPIPE, pipe_before);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(ChildProcess, AWaitEndsAtItsTimeAndTheChildGoesOn) {
  auto child = Shell("read never </dev/zero");
  EXPECT_FALSE(child->WaitFor(HastyClock(), absl::Seconds(3)));
  EXPECT_FALSE(child->Ended());
  child->Signal(SIGTERM);
  EXPECT_TRUE(child->WaitFor(Clock::Real(), kLong));
}

TEST(ChildProcess, MoreOutputThanAPipeHoldsDoesNotBlockIt) {
  auto child = Shell("head -c 1000000 /dev/zero | tr '\\0' x");
  const auto state = child->WaitFor(Clock::Real(), kLong);
  ASSERT_TRUE(state);
  EXPECT_TRUE(state->ok());
}

TEST(ChildProcess, DestructionKillsIt) {
  auto child = Shell("echo up; read never </dev/zero");
  const pid_t pid = child->pid();
  child.reset();
  EXPECT_EQ(kill(pid, 0), -1);
}

TEST(ChildProcess, ItDoesNotOutliveAParentThatWasKilled) {
  int alive[2];  // whose write end the child holds as long as it lives
  ASSERT_EQ(pipe(alive), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    const auto child =
        ChildProcess::Start({.program = "/bin/sh", .arguments = {"-c", "read never </dev/zero"}});
    kill(getpid(), SIGKILL);
  }
  close(alive[1]);
  waitpid(parent, nullptr, 0);
  pollfd end = {.fd = alive[0], .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&end, 1, 20'000), 1);
  close(alive[0]);
}

TEST(ChildProcess, ANameIsLookedForInTheFoldersOfTheSearchPath) {
  const auto start = [](const std::string& search_path) {
    return ChildProcess::Start(
        {.program = "sh", .arguments = {"-c", "exit 3"}, .search_path = search_path});
  };
  auto child = start("/nowhere::/bin");
  WEIR_ASSERT_OK(child);
  const auto state = (*child)->WaitFor(Clock::Real(), kLong);
  ASSERT_TRUE(state);
  EXPECT_EQ(state->code, 3);
  EXPECT_THAT(start("/nowhere"), HasStatus(absl::StatusCode::kNotFound, HasSubstr("sh")));
  EXPECT_THAT(start(""), HasStatus(absl::StatusCode::kNotFound, HasSubstr("sh")));
}

TEST(ChildProcess, AMissingProgramIsNamed) {
  EXPECT_THAT(ChildProcess::Start({.program = "/nowhere/prog", .arguments = {}}),
              HasStatus(absl::StatusCode::kNotFound, HasSubstr("/nowhere/prog")));
  EXPECT_THAT(ChildProcess::Start(
                  {.program = "weir-no-such-program", .arguments = {}, .search_path = "/bin"}),
              HasStatus(absl::StatusCode::kNotFound, HasSubstr("weir-no-such-program")));
}

}  // namespace
}  // namespace weir
