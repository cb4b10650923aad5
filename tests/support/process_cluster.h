// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/process_group.h"

namespace weir {

// A cluster of real processes on loopback that a test may kill one by one. They are named
// "coordinator", "server-0", "server-1", ..., and what the test itself starts. Destruction kills
// what still runs. A sanitizer's report from any of them fails the test. Used from one thread,
// which must call one of the waits now and then: output is read only there.
class ProcessCluster {
 public:
  struct Options {
    int servers = 1;
    std::string folder;  // data directories and logs; must exist
    std::vector<std::string> coordinator_flags;
    std::vector<std::string> server_flags;
  };

  // Starts all and waits until each serves. The error has the last lines of the one that does not.
  static absl::StatusOr<std::unique_ptr<ProcessCluster>> Start(Options options);
  ~ProcessCluster();

  const std::string& coordinator() const { return addresses_.at("coordinator"); }
  const std::string& address(const std::string& name) const { return addresses_.at(name); }

  // Again after a Kill: same name, same address, same data directory, new incarnation.
  absl::Status StartCoordinator();
  absl::Status StartServer(int index);
  // A program of the build's bin folder, such as weir-worker. Does not wait for anything.
  absl::Status StartProgram(const std::string& name, const std::string& program,
                            const std::vector<std::string>& arguments);

  // SIGKILL, and waits for the end.
  absl::Status Kill(const std::string& name);
  // SIGTERM; does not wait.
  void Terminate(const std::string& name);
  void Signal(const std::string& name, int signal) { group_.Signal(name, signal); }

  bool Runs(const std::string& name) const { return group_.Runs(name); }
  pid_t Pid(const std::string& name) const { return group_.Pid(name); }  // 0: does not run
  // Errors: DeadlineExceeded - it still runs, with its last lines.
  absl::StatusOr<ExitState> WaitForExit(const std::string& name, absl::Duration timeout);
  // Returns the first line, of those that no WaitForLine has passed yet, with `part` in it.
  // Errors: DeadlineExceeded; FailedPrecondition - it has ended. Both with its last lines.
  absl::StatusOr<std::string> WaitForLine(const std::string& name, const std::string& part,
                                          absl::Duration timeout);
  // Reads output until `condition` holds. False: the time ran out.
  bool WaitUntil(const std::function<bool()>& condition, absl::Duration timeout) {
    return group_.PollUntil(condition, timeout);
  }
  // All that it has printed, in all its lives.
  std::string Output(const std::string& name) const;

  // The path of a program of the build's bin folder.
  static std::string Program(const std::string& name);

 private:
  explicit ProcessCluster(Options options);
  void TakeLine(const std::string& name, const std::string& line);
  absl::Status StartDaemon(const std::string& name, const std::string& program,
                           std::vector<std::string> arguments);
  std::string WithLastLines(const std::string& message, const std::string& name) const;

  const Options options_;
  std::map<std::string, std::string> addresses_;
  std::map<std::string, std::vector<std::string>> lines_;
  std::map<std::string, std::string> reports_;  // of sanitizers, as far as they have come
  std::map<std::string, size_t> passed_;        // lines that WaitForLine has gone beyond
  std::map<std::string, ExitState> ended_;
  ProcessGroup group_;
};

}  // namespace weir
