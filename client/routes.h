// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/worker_id.h"
#include "sharding/layout.h"
#include "weir/v1/view.pb.h"

namespace weir {

// One view of a job as a client needs it: where each shard is, and which variables there are.
// Immutable, thread-safe.
class Routes {
 public:
  // Errors: InvalidArgument - the view contradicts itself; says where.
  static absl::StatusOr<std::shared_ptr<const Routes>> Create(
      std::shared_ptr<const v1::JobView> view);

  const v1::JobView& view() const { return *view_; }
  // False: nothing is declared yet, or no server holds it; then there are no variables here.
  bool placed() const { return placed_; }
  bool IsMember(WorkerId worker) const;

  size_t num_variables() const { return placed_ ? view_->declaration().variables_size() : 0; }
  const v1::Variable& variable(size_t variable) const {
    return view_->declaration().variables(static_cast<int>(variable));
  }
  uint64_t elements(size_t variable) const { return extents_[variable].elements; }
  uint64_t bytes(size_t variable) const {
    return extents_[variable].elements * extents_[variable].element_bytes;
  }

  const Layout& layout() const { return layout_; }
  const Shard& shard(uint64_t shard) const { return layout_.shards()[shard]; }
  const v1::ServerInfo& server_of(uint64_t shard) const {
    return view_->shard_map().servers(
        static_cast<int>(view_->shard_map().server_of_shard(static_cast<int>(shard))));
  }

  // Chunks are numbered through all shards of the job.
  uint64_t first_chunk(uint64_t shard) const { return first_chunk_[shard]; }
  uint64_t num_chunks() const { return first_chunk_.back(); }

 private:
  Routes(std::shared_ptr<const v1::JobView> view, std::vector<VariableExtent> extents,
         uint64_t chunk_bytes);

  const std::shared_ptr<const v1::JobView> view_;
  const std::vector<VariableExtent> extents_;
  const Layout layout_;
  const bool placed_;
  std::vector<uint64_t> first_chunk_;  // by shard, and one more
};

}  // namespace weir
