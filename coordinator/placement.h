// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "weir/v1/job_spec.pb.h"
#include "weir/v1/variables.pb.h"
#include "weir/v1/view.pb.h"

namespace weir {

struct Placement {
  v1::ShardMap map;
  std::vector<uint64_t> bytes;  // that the job takes on each of map.servers
};

struct PlacementOptions {
  uint64_t version = 1;
  uint64_t shard_bytes = 0;  // 0: the default for the job's size
  uint64_t chunk_bytes = 0;  // 0: the default
};

// Places the shards of a checked declaration on `servers`, which are sorted by name and not empty.
// Errors: InvalidArgument, ResourceExhausted - those of CheckLayout.
absl::StatusOr<Placement> PlaceJob(const v1::JobSpec& spec, const v1::Declaration& declaration,
                                   const std::vector<v1::ServerInfo>& servers,
                                   const PlacementOptions& options);

// The servers that hold a shard, by index into map.servers.
std::vector<uint32_t> HoldersOf(const v1::ShardMap& map);

}  // namespace weir
