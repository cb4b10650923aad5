// SPDX-License-Identifier: Apache-2.0
#include "cli/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"

namespace weir {
namespace {

absl::StatusOr<std::string> FindProgram(const ChildOptions& options) {
  const std::string& program = options.program;
  if (program.find('/') != std::string::npos) {
    if (access(program.c_str(), X_OK) == 0) return program;
    return absl::NotFoundError(absl::StrCat("no program at ", program));
  }
  for (absl::string_view folder : absl::StrSplit(options.search_path, ':', absl::SkipEmpty())) {
    std::string candidate = absl::StrCat(folder, "/", program);
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return absl::NotFoundError(
      absl::StrCat("no program named ", program, " in ",
                   options.search_path.empty() ? "an empty PATH" : options.search_path));
}

absl::Status Refused(const std::string& program, const char* call, int error) {
  return absl::InternalError(
      absl::StrCat("cannot start ", program, ": ", call, ": ", std::strerror(error)));
}

struct Pipe {
  int read = -1;
  int write = -1;
};

absl::StatusOr<Pipe> OpenPipe(const std::string& program) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Refused(program, "pipe2", errno);
  return Pipe{ends[0], ends[1]};
}

// Runs in the child between fork and exec: only calls that are safe after a fork of a program with
// threads. Reports the failing call's errno through `failure`, which exec closes.
[[noreturn]] void BecomeProgram(const char* program, char* const* argv, pid_t parent, int output,
                                int failure) {
  const auto fail = [&] {
    const int error = errno;
    (void)!write(failure, &error, sizeof error);
    _exit(127);
  };
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) fail();
  if (getppid() != parent) _exit(127);  // it died before the line above
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  const int input = open("/dev/null", O_RDONLY);
  if (input < 0 || dup2(input, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0) fail();
  execv(program, argv);
  fail();
  _exit(127);
}

}  // namespace

std::string ExitState::ToString() const {
  if (code == kLost) return "an exit status that the system did not keep";
  if (signal == 0) return absl::StrCat("exit status ", code);
  return absl::StrCat("signal ", signal, " (", strsignal(signal), ")");
}

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(const ChildOptions& options) {
  WEIR_ASSIGN_OR_RETURN(const std::string program, FindProgram(options));
  WEIR_ASSIGN_OR_RETURN(const Pipe output, OpenPipe(program));
  WEIR_ASSIGN_OR_RETURN(const Pipe failure, OpenPipe(program));
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : options.arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);

  // Not posix_spawn: it has no attribute for the parent's death.
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) BecomeProgram(program.c_str(), argv.data(), parent, output.write, failure.write);
  const int fork_error = errno;
  close(output.write);
  close(failure.write);

  int error = pid < 0 ? fork_error : 0;
  if (pid > 0) {
    while (read(failure.read, &error, sizeof error) < 0 && errno == EINTR) {
    }
  }
  close(failure.read);
  if (error != 0) {
    if (pid > 0) waitpid(pid, nullptr, 0);
    close(output.read);
    return Refused(program, pid < 0 ? "fork" : "exec", error);
  }
  fcntl(output.read, F_SETFL, O_NONBLOCK);
  return std::unique_ptr<ChildProcess>(new ChildProcess(pid, output.read));
}

ChildProcess::~ChildProcess() {
  if (!Ended()) {
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  if (output_ >= 0) close(output_);
}

void ChildProcess::ReadOutput() {
  char buffer[16 << 10];
  while (output_ >= 0) {
    const ssize_t size = read(output_, buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return;
    std::vector<std::string> lines =
        size > 0 ? splitter_.Feed({buffer, static_cast<size_t>(size)}) : splitter_.Flush();
    std::move(lines.begin(), lines.end(), std::back_inserter(lines_));
    if (size <= 0) {
      close(output_);
      output_ = -1;
    }
  }
}

std::vector<std::string> ChildProcess::ReadLines() {
  ReadOutput();
  return std::exchange(lines_, {});
}

std::optional<ExitState> ChildProcess::Ended() {
  if (ended_) return ended_;
  int status = 0;
  const pid_t reaped = waitpid(pid_, &status, WNOHANG);
  if (reaped == 0 || (reaped < 0 && errno == EINTR)) return std::nullopt;
  // Of a process that ignores SIGCHLD no child's end is kept.
  ended_ = reaped < 0 ? ExitState{.code = ExitState::kLost}
                      : ExitState{.code = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                                  .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0};
  return ended_;
}

std::optional<ExitState> ChildProcess::WaitFor(const Clock& clock, absl::Duration timeout) {
  const absl::Time deadline = clock.Now() + timeout;
  while (!Ended() && clock.Now() < deadline) {
    // The exit of a child is no event of its output: a grandchild may hold that open.
    pollfd output = {.fd = output_, .events = POLLIN, .revents = 0};
    poll(&output, 1, 10);
    ReadOutput();
  }
  return ended_;
}

void ChildProcess::Signal(int signal) {
  if (!Ended()) kill(pid_, signal);
}

}  // namespace weir
