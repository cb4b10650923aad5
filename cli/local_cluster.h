// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "cli/local_state.h"
#include "cli/process_group.h"
#include "common/clock.h"

namespace weir {

// A coordinator and servers on this machine, as children of a process group that is the owner's:
// the owner polls the group and passes on what it reports. A process that ends unasked is started
// again under its name, at its address, over its data. Thread-compatible.
class LocalCluster {
 public:
  struct Options {
    std::string program_folder;    // of weir-coordinator and weir-server
    std::string data_folder;       // coordinator/ and server-N/ in it
    std::string logs_folder;       // for messages
    std::string coordinator = {};  // HOST:PORT to serve at; empty: any port of loopback
    int servers = 1;
    std::string log_level = "info";
    int max_restarts = 5;          // of one process; then the cluster has failed
    const Clock* clock = nullptr;  // must outlive this
    // Hears of what a person should know: what was started again, and why. May be null.
    std::function<void(const std::string&)> say;
  };
  struct Process {
    std::string name;
    std::string program;
    std::string address;  // HOST:PORT; empty until it has served once
    std::vector<std::string> arguments;
    int restarts = 0;
    absl::Time due = absl::InfiniteFuture();  // when it is to be started again
    bool serves = false;
  };

  // `group` must outlive this.
  LocalCluster(Options options, ProcessGroup& group);

  // Starts all, and polls the group until each has served; one that ends after that is started
  // again as at any other time. Errors: Unavailable - one does not serve; its last errors are in
  // the message.
  absl::Status Start();

  // What the group reports, in any order of names. Names of others are ignored.
  void TakeLine(const std::string& name, const std::string& line);
  void TakeExit(const std::string& name, const ExitState& state);
  // Starts again what is due. Call it after each poll.
  // Errors: Unavailable - a process ends again and again; the cluster is of no more use.
  absl::Status Tend();

  // Servers first, so that they can still take their leave of the coordinator. Returns the names of
  // those that had to be killed.
  std::vector<std::string> Stop();

  const std::string& coordinator() const { return processes_.front().address; }
  LocalState State() const;
  const std::vector<Process>& processes() const { return processes_; }

 private:
  absl::Status Launch(Process& process);
  absl::Status AwaitServing(const Process& process);
  absl::Status Failed(const Process& process, const std::string& what) const;
  std::string ErrorsOf(const std::string& name) const;
  Process* Find(const std::string& name);

  const Options options_;
  ProcessGroup& group_;
  std::vector<Process> processes_;  // the coordinator first
  bool stopping_ = false;
};

}  // namespace weir
