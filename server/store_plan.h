// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/optimizer/update_rule.h"
#include "sharding/layout.h"
#include "weir/v1/view.pb.h"

namespace weir {

struct VariablePlan {
  std::string name;
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  uint32_t element_bytes = 0;
  uint64_t elements = 0;
  uint32_t group = 0;                                         // 0: state
  v1::Aggregation aggregation = v1::AGGREGATION_UNSPECIFIED;  // of state, defaults resolved
  const UpdateRule* rule = nullptr;                           // null: state
  const v1::Schedule* schedule = nullptr;                     // null: state
};

// A shard that lives on this server. Its chunks are numbered first_chunk, ... among the chunks that
// the server holds of the variable's group.
struct LocalShard {
  Shard shard;
  const VariablePlan* variable = nullptr;
  uint64_t first_chunk = 0;
};

struct GroupPlan {
  std::string name;     // "state" for [0]
  uint64_t chunks = 0;  // on this server
};

// What one server holds of one attempt of a job, and how it is updated. Immutable, thread-safe.
class StorePlan {
 public:
  // Errors: InvalidArgument - the declaration or the shard map contradicts itself; names what;
  // those of CheckLayout.
  static absl::StatusOr<std::unique_ptr<const StorePlan>> Create(const v1::JobView& view,
                                                                 uint64_t server_incarnation);
  StorePlan(const StorePlan&) = delete;
  StorePlan& operator=(const StorePlan&) = delete;

  const Layout& layout() const { return layout_; }
  absl::Span<const VariablePlan> variables() const { return variables_; }
  absl::Span<const GroupPlan> groups() const { return groups_; }  // [0]: state
  absl::Span<const LocalShard> shards() const { return shards_; }
  // nullptr: not on this server.
  const LocalShard* Find(ShardId shard) const;

  // All members are in one step; or at least those of each sync group are.
  bool sync() const { return sync_; }
  bool stepped() const { return sync_ || sync_groups_ > 0; }
  // How far one member may be ahead of the slowest, in steps; 0: not bounded.
  uint64_t bounded_staleness() const { return bounded_staleness_; }
  // How many contributions close a sync step; 0: those of all members.
  uint64_t quorum() const { return quorum_; }
  bool deterministic() const { return deterministic_; }
  v1::RateScale rate_scale() const { return rate_scale_; }
  // Weights and slots; and with what sync and state need besides.
  uint64_t saved_bytes() const { return saved_bytes_; }
  uint64_t planned_bytes() const { return planned_bytes_; }

 private:
  StorePlan(const v1::JobView& view, std::vector<VariablePlan> variables, Layout layout);
  absl::Status MakeRules();
  void PlaceShards(const v1::ShardMap& map, uint64_t server_incarnation);

  const v1::Declaration declaration_;
  const bool sync_;
  const uint64_t sync_groups_;  // when all workers are there; 0: another regime
  const uint64_t bounded_staleness_;
  const uint64_t quorum_;
  const bool deterministic_;
  const v1::RateScale rate_scale_;
  const uint64_t workers_;
  std::vector<VariablePlan> variables_;
  const Layout layout_;
  std::vector<std::unique_ptr<UpdateRule>> rules_;
  std::vector<GroupPlan> groups_;
  std::vector<LocalShard> shards_;
  absl::flat_hash_map<uint64_t, size_t> by_id_;
  uint64_t saved_bytes_ = 0;
  uint64_t planned_bytes_ = 0;
};

}  // namespace weir
