// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "coordinator/checkpoint_catalog.h"
#include "coordinator/server_control_transport.h"
#include "weir/v1/coordinator.pb.h"

namespace weir {

// Tells servers to remove the parts of checkpoints that are none any more, as often as it takes:
// a server that is away is told when it is back. Then the checkpoint is forgotten. Thread-safe.
// Shared, because answers may come after its owner is gone.
class PartDropper : public std::enable_shared_from_this<PartDropper> {
 public:
  // `transport` must outlive every call.
  PartDropper(std::shared_ptr<CheckpointCatalog> catalog, ServerControlTransport& transport)
      : catalog_(std::move(catalog)), transport_(transport) {}

  // Job, id, and parts with their server.
  void Add(const v1::Manifest& remains);
  // Asks these servers for what is still to be dropped. Not under a lock.
  void Ask(const std::vector<v1::ServerInfo>& live, uint64_t term);

 private:
  struct Remains {
    std::string job;
    std::string id;
    std::set<std::string> servers;  // that have not answered
    std::set<std::string> asked;    // and are being asked
  };
  void OnDropped(const std::string& key, const std::string& server, const absl::Status& status);

  const std::shared_ptr<CheckpointCatalog> catalog_;
  ServerControlTransport& transport_;
  Mutex mutex_;
  std::map<std::string, Remains> remains_ ABSL_GUARDED_BY(mutex_);  // by "job/id"
};

}  // namespace weir
