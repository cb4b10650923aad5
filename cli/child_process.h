// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/line_splitter.h"
#include "common/clock.h"

namespace weir {

// How a process ended.
struct ExitState {
  int code = 0;    // exit status, where no signal ended it
  int signal = 0;  // 0: none

  // The system has kept nothing of how it ended.
  static constexpr int kLost = -1;

  bool ok() const { return code == 0 && signal == 0; }
  std::string ToString() const;  // "exit status 1", "signal 9 (Killed)"
};

struct ChildOptions {
  std::string program;                 // a path, or a name that is looked for in search_path
  std::vector<std::string> arguments;  // without the program's own name
  std::string search_path = {};        // folders with colons between them, as PATH has them
};

// A process of ours, its standard output and error in one pipe, its input empty, in a process group
// of its own (a terminal's Ctrl-C does not reach it). It never outlives us: the kernel kills it
// when the thread that started it ends, however that came about. Thread-compatible.
class ChildProcess {
 public:
  // Call from a thread that lives as long as the child shall.
  // Errors: NotFound - no such program; Internal - the system refused.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const ChildOptions& options);

  // Kills it (SIGKILL) if it still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  // To poll for readability; -1 once the output has ended.
  int output_fd() const { return output_; }

  // Lines that have come since the last call. Never waits.
  std::vector<std::string> ReadLines();
  // How it ended; nothing while it runs. Never waits.
  std::optional<ExitState> Ended();
  // The same, after at most `timeout` by `clock`. The output goes on to be read, so it cannot block
  // the child.
  std::optional<ExitState> WaitFor(const Clock& clock, absl::Duration timeout);
  // Nothing happens where it has ended.
  void Signal(int signal);

 private:
  ChildProcess(pid_t pid, int output) : pid_(pid), output_(output) {}
  void ReadOutput();

  const pid_t pid_;
  int output_;
  LineSplitter splitter_;
  std::vector<std::string> lines_;
  std::optional<ExitState> ended_;
};

}  // namespace weir
