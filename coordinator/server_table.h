// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/turn.h"
#include "weir/v1/coordinator.pb.h"
#include "weir/v1/coordinator_state.pb.h"

namespace weir {

// The servers that have registered, by name, and their leases. Thread-compatible.
class ServerTable {
 public:
  struct Server {
    v1::ServerRecord record;
    absl::Time last_heard;
    absl::Time lease_end;
    uint64_t memory_bytes = 0;  // in use, as the last heartbeat said
  };

  explicit ServerTable(absl::Duration lease) : lease_(lease) {}

  // At start: everybody has one full lease.
  void Load(const v1::ServerRecord& record, absl::Time now);

  // True: it is new, or another incarnation, or it is back after its lease had ended.
  // Errors: InvalidArgument - no name, address or incarnation; FailedPrecondition - a newer process
  // has registered under this name.
  absl::StatusOr<bool> Register(const v1::RegisterServerRequest& request, Turn& turn);
  // Errors: NotFound - unknown; Aborted - its lease had ended, or a newer process has its name.
  absl::Status Heartbeat(const v1::HeartbeatRequest& request, absl::Time now);
  // It stops: its lease ends now. Answers its name. Errors: NotFound - unknown.
  absl::StatusOr<std::string> Leave(uint64_t incarnation, Turn& turn);
  // We were deaf for so long: that counts against nobody.
  void Extend(absl::Duration deaf);
  // Ends the leases that are due, and answers the servers' names.
  std::vector<std::string> EndLeases(Turn& turn);

  // By name.
  std::vector<v1::ServerInfo> Live() const;
  // nullptr: none of this name.
  const Server* Find(const std::string& name) const;
  bool IsLive(const v1::ServerInfo& server) const;
  const std::map<std::string, Server>& all() const { return servers_; }

 private:
  const absl::Duration lease_;
  std::map<std::string, Server> servers_;
};

}  // namespace weir
