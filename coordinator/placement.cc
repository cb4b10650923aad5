// SPDX-License-Identifier: Apache-2.0
#include "coordinator/placement.h"

#include <set>

#include "common/status_macros.h"
#include "coordinator/declaration_check.h"
#include "coordinator/memory_need.h"
#include "sharding/layout.h"

namespace weir {

absl::StatusOr<Placement> PlaceJob(const v1::JobSpec& spec, const v1::Declaration& declaration,
                                   const std::vector<v1::ServerInfo>& servers,
                                   const PlacementOptions& options) {
  const std::vector<VariableExtent> extents = ExtentsOf(declaration);
  const uint64_t chunk_bytes = options.chunk_bytes == 0 ? kDefaultChunkBytes : options.chunk_bytes;
  WEIR_RETURN_IF_ERROR(CheckLayout(extents, options.shard_bytes, chunk_bytes));
  const Layout layout(extents, options.shard_bytes, chunk_bytes);
  Placement placement;
  placement.map.set_version(options.version);
  placement.map.set_shard_bytes(layout.shard_bytes());
  placement.map.set_chunk_bytes(layout.chunk_bytes());
  for (const v1::ServerInfo& server : servers) *placement.map.add_servers() = server;
  for (const uint32_t server :
       PlaceShards(layout.shards(), static_cast<uint32_t>(servers.size()))) {
    placement.map.add_server_of_shard(server);
  }
  placement.bytes = BytesByServer(spec, declaration, layout, placement.map);
  return placement;
}

std::vector<uint32_t> HoldersOf(const v1::ShardMap& map) {
  const std::set<uint32_t> holders(map.server_of_shard().begin(), map.server_of_shard().end());
  return {holders.begin(), holders.end()};
}

}  // namespace weir
