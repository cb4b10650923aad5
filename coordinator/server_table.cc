// SPDX-License-Identifier: Apache-2.0
#include "coordinator/server_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "checkpoint/manifest.h"
#include "common/status_macros.h"

namespace weir {
namespace {

constexpr int kMostSuperseded = 16;

std::string KeyOf(const std::string& name) {
  return absl::StrCat("server/", name);
}

bool IsSuperseded(const v1::ServerRecord& record, uint64_t incarnation) {
  return std::find(record.superseded().begin(), record.superseded().end(), incarnation) !=
         record.superseded().end();
}

}  // namespace

void ServerTable::Load(const v1::ServerRecord& record, absl::Time now) {
  servers_[record.server().name()] = {
      .record = record, .last_heard = now, .lease_end = now + lease_};
}

absl::StatusOr<bool> ServerTable::Register(const v1::RegisterServerRequest& request, Turn& turn) {
  const v1::ServerInfo& info = request.server();
  WEIR_RETURN_IF_ERROR(CheckFolderName("server name", info.name()));
  if (info.address().empty() || info.incarnation() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("server '", info.name(), "': address and incarnation must be set"));
  }
  Server& server = servers_[info.name()];
  v1::ServerRecord& record = server.record;
  if (IsSuperseded(record, info.incarnation())) {
    return absl::FailedPreconditionError(
        absl::StrCat("a newer process at ", record.server().address(), " has registered as '",
                     info.name(), "'; give every server a --name of its own"));
  }
  const bool restarted = record.server().incarnation() != info.incarnation();
  if (restarted && record.server().incarnation() != 0) {
    record.add_superseded(record.server().incarnation());
    if (record.superseded_size() > kMostSuperseded) {
      record.mutable_superseded()->erase(record.superseded().begin());
    }
  }
  const bool changed = restarted || !record.live();
  *record.mutable_server() = info;
  record.set_memory_limit_bytes(request.memory_limit_bytes());
  record.set_build(request.build());
  record.set_live(true);
  server.last_heard = turn.now();
  server.lease_end = turn.now() + lease_;
  if (restarted) server.memory_bytes = 0;
  turn.Put(KeyOf(info.name()), record);
  return changed;
}

absl::Status ServerTable::Heartbeat(const v1::HeartbeatRequest& request, absl::Time now) {
  const uint64_t incarnation = request.incarnation();
  for (auto& [name, server] : servers_) {
    if (server.record.server().incarnation() == incarnation) {
      if (!server.record.live()) {
        return absl::AbortedError(absl::StrCat("the lease of server '", name, "' had ended"));
      }
      server.last_heard = now;
      server.lease_end = now + lease_;
      server.memory_bytes = request.report().memory_bytes();
      return absl::OkStatus();
    }
    if (IsSuperseded(server.record, incarnation)) {
      return absl::AbortedError(
          absl::StrCat("a newer process has registered as server '", name, "'"));
    }
  }
  return absl::NotFoundError("no such server; register again");
}

absl::StatusOr<std::string> ServerTable::Leave(uint64_t incarnation, Turn& turn) {
  for (auto& [name, server] : servers_) {
    if (server.record.server().incarnation() != incarnation) continue;
    server.record.set_live(false);
    turn.Put(KeyOf(name), server.record);
    return name;
  }
  return absl::NotFoundError("no such server");
}

void ServerTable::Extend(absl::Duration deaf) {
  for (auto& [name, server] : servers_) server.lease_end += deaf;
}

std::vector<std::string> ServerTable::EndLeases(Turn& turn) {
  std::vector<std::string> ended;
  for (auto& [name, server] : servers_) {
    if (!server.record.live() || turn.now() < server.lease_end) continue;
    server.record.set_live(false);
    turn.Put(KeyOf(name), server.record);
    ended.push_back(name);
  }
  return ended;
}

std::vector<v1::ServerInfo> ServerTable::Live() const {
  std::vector<v1::ServerInfo> live;
  for (const auto& [name, server] : servers_) {
    if (server.record.live()) live.push_back(server.record.server());
  }
  return live;
}

const ServerTable::Server* ServerTable::Find(const std::string& name) const {
  const auto found = servers_.find(name);
  return found == servers_.end() ? nullptr : &found->second;
}

bool ServerTable::IsLive(const v1::ServerInfo& server) const {
  const Server* found = Find(server.name());
  return found != nullptr && found->record.live() &&
         found->record.server().incarnation() == server.incarnation();
}

}  // namespace weir
