// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/process_group.h"

namespace weir::bench {

// A coordinator, servers and the peer of the limits as real processes on loopback, from the folder
// of this program, with their data in a temporary folder. All end with it. Used from one thread.
class LoopbackCluster {
 public:
  // Errors: NotFound - a program is missing; DeadlineExceeded or Unavailable - it does not come up.
  static absl::StatusOr<std::unique_ptr<LoopbackCluster>> Start(int servers);
  ~LoopbackCluster();

  const std::string& folder() const { return folder_; }  // removed with it
  const std::string& coordinator() const { return coordinator_; }
  const std::string& peer_tcp() const { return peer_tcp_; }
  const std::string& peer_grpc() const { return peer_grpc_; }
  std::vector<pid_t> server_pids() const;
  pid_t peer_pid() const { return processes_.Pid("peer"); }

 private:
  explicit LoopbackCluster(std::string folder);
  absl::Status StartAll(int servers);
  // Starts bin/`program` as `name` and returns its line that begins with "`program` ready" or, for
  // the peer, "bench-peer ready".
  absl::StatusOr<std::string> StartProgram(const std::string& name, const std::string& program,
                                           std::vector<std::string> arguments);

  const std::string folder_;
  std::map<std::string, std::string> ready_lines_;
  ProcessGroup processes_;
  std::vector<std::string> servers_;
  std::string coordinator_;
  std::string peer_tcp_;
  std::string peer_grpc_;
};

// The processes' CPU time since their start, in seconds; of this one: 0 as pid.
double CpuSeconds(const std::vector<pid_t>& processes);

}  // namespace weir::bench
