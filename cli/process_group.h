// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "cli/child_process.h"
#include "common/clock.h"

namespace weir {

// Children by name, each with its log file, watched from one thread. Thread-compatible.
class ProcessGroup {
 public:
  struct Options {
    std::string log_folder;  // made if absent; a child's output is appended to <name>.log in it
    const Clock* clock = nullptr;  // of timeouts; must outlive the group
    // Called from Poll and Stop. Either may start children, but must not stop them.
    std::function<void(const std::string& name, const std::string& line)> on_line;
    std::function<void(const std::string& name, const ExitState& state)> on_exit;
  };

  explicit ProcessGroup(Options options);
  ~ProcessGroup();  // kills what still runs

  // Errors: AlreadyExists - a child of this name runs; else as ChildProcess::Start.
  absl::Status Start(const std::string& name, const ChildOptions& options);

  // Waits at most `timeout` for output or an end, and reports what came.
  void Poll(absl::Duration timeout);
  // Polls until `condition` holds. False: the time ran out.
  bool PollUntil(const std::function<bool()>& condition, absl::Duration timeout);

  bool Runs(const std::string& name) const { return children_.count(name) != 0; }
  pid_t Pid(const std::string& name) const;  // 0: does not run
  // The last lines of a child's output, also after its end.
  std::vector<std::string> LastLines(const std::string& name) const;

  void Signal(const std::string& name, int signal);
  // SIGTERM to those named, in no order, then SIGKILL to those that still run after `grace`.
  // Returns the names of the latter.
  std::vector<std::string> Stop(const std::vector<std::string>& names, absl::Duration grace);

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  struct Child {
    std::unique_ptr<ChildProcess> process;
    std::unique_ptr<std::FILE, CloseFile> log;
  };

  void ReadAll(const std::string& name, Child& child);
  bool ReapOne();

  const Options options_;
  std::map<std::string, Child> children_;
  std::map<std::string, std::deque<std::string>> last_lines_;
};

}  // namespace weir
