// SPDX-License-Identifier: Apache-2.0
#include "client/routes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/declaration_proto.h"
#include "common/status_macros.h"
#include "proto/dtype.h"

namespace weir {
namespace {

absl::Status Contradicts(const v1::JobView& view, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("view ", view.version(), " of job '", view.name(), "': ", what));
}

absl::Status CheckPlacement(const Routes& routes) {
  const v1::ShardMap& map = routes.view().shard_map();
  if (static_cast<size_t>(map.server_of_shard_size()) != routes.layout().shards().size()) {
    return Contradicts(routes.view(),
                       absl::StrCat("its shard map places ", map.server_of_shard_size(),
                                    " shards, its layout has ", routes.layout().shards().size()));
  }
  for (const uint32_t server : map.server_of_shard()) {
    if (server >= static_cast<uint32_t>(map.servers_size())) {
      return Contradicts(routes.view(), "a shard is on a server that is not listed");
    }
  }
  return absl::OkStatus();
}

}  // namespace

Routes::Routes(std::shared_ptr<const v1::JobView> view, std::vector<VariableExtent> extents,
               uint64_t chunk_bytes)
    : view_(std::move(view)),
      extents_(std::move(extents)),
      layout_(extents_, view_->shard_map().shard_bytes(), chunk_bytes),
      placed_(view_->shard_map().servers_size() > 0) {
  first_chunk_.reserve(layout_.shards().size() + 1);
  uint64_t chunks = 0;
  for (const Shard& shard : layout_.shards()) {
    first_chunk_.push_back(chunks);
    chunks += shard.num_chunks();
  }
  first_chunk_.push_back(chunks);
}

absl::StatusOr<std::shared_ptr<const Routes>> Routes::Create(
    std::shared_ptr<const v1::JobView> view) {
  std::vector<VariableExtent> extents;
  uint64_t chunk_bytes = kDefaultChunkBytes;
  const v1::ShardMap& map = view->shard_map();
  if (map.servers_size() > 0) {
    if (map.chunk_bytes() > 0) chunk_bytes = map.chunk_bytes();
    if (chunk_bytes > (1 << 20)) {  // must fit in one message
      return Contradicts(*view, absl::StrCat("chunks of ", chunk_bytes, " bytes"));
    }
    WEIR_RETURN_IF_ERROR(CheckWellFormed(view->declaration()));
    for (const v1::Variable& variable : view->declaration().variables()) {
      extents.push_back({ElementsOf(variable), ElementBytes(variable.dtype())});
    }
    WEIR_RETURN_IF_ERROR(CheckLayout(extents, map.shard_bytes(), chunk_bytes));
  }
  std::shared_ptr<const Routes> routes(
      new Routes(std::move(view), std::move(extents), chunk_bytes));
  if (routes->placed()) WEIR_RETURN_IF_ERROR(CheckPlacement(*routes));
  return routes;
}

bool Routes::IsMember(WorkerId worker) const {
  return std::any_of(view_->members().begin(), view_->members().end(),
                     [&](const v1::Member& member) { return WorkerId{member.worker()} == worker; });
}

}  // namespace weir
