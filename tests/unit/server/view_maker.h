// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/dtype.h"
#include "sharding/layout.h"
#include "weir/v1/view.pb.h"

namespace weir {

inline constexpr uint64_t kServer = 0x5e;
inline constexpr uint64_t kRun = 0x7;
inline constexpr uint64_t kChunkBytes = 64;

// A view of a running job. Chunks are tiny, so that small variables have many.
class ViewMaker {
 public:
  ViewMaker() {
    view_.set_run_id(kRun);
    view_.set_name("job");
    view_.set_version(1);
    view_.set_term(1);
    view_.set_attempt(1);
    view_.set_generation(1);
    view_.set_state(v1::JOB_STATE_INITIALISING);
    view_.mutable_spec()->mutable_regime()->set_kind(v1::REGIME_ASYNC);
    v1::ServerInfo& server = *view_.mutable_shard_map()->add_servers();
    server.set_name("weir-server-0");
    server.set_incarnation(kServer);
    view_.mutable_shard_map()->set_version(1);
    chunk_bytes = kChunkBytes;
    shard_bytes = 4 * kChunkBytes;
    AddGroup("sgd");
  }

  ViewMaker& Sync() {
    view_.mutable_spec()->mutable_regime()->set_kind(v1::REGIME_SYNC);
    return *this;
  }
  ViewMaker& BoundedStaleness(uint64_t bound) {
    view_.mutable_spec()->mutable_regime()->set_kind(v1::REGIME_BOUNDED_STALENESS);
    view_.mutable_spec()->mutable_regime()->set_bounded_staleness(bound);
    return *this;
  }
  ViewMaker& SyncGroups(uint64_t size) {
    view_.mutable_spec()->mutable_regime()->set_kind(v1::REGIME_SYNC_GROUPS);
    view_.mutable_spec()->mutable_regime()->set_sync_group_size(size);
    return *this;
  }
  ViewMaker& BackupWorkers(uint32_t workers) {
    view_.mutable_spec()->mutable_regime()->set_backup_workers(workers);
    return *this;
  }
  ViewMaker& Deterministic() {
    view_.mutable_spec()->set_deterministic(true);
    return *this;
  }
  // Plain gradient descent with rate 1.
  v1::OptimizerGroup& AddGroup(const std::string& name) {
    v1::OptimizerGroup& group = *view_.mutable_declaration()->add_groups();
    group.set_name(name);
    group.mutable_optimizer()->mutable_learning_rate()->set_base(1);
    group.mutable_optimizer()->mutable_sgd();
    return group;
  }
  v1::Optimizer& optimizer() {
    return *view_.mutable_declaration()->mutable_groups(0)->mutable_optimizer();
  }
  ViewMaker& AddVariable(const std::string& name, uint64_t elements, uint32_t group = 1,
                         v1::DType dtype = v1::DTYPE_F32,
                         v1::Aggregation aggregation = v1::AGGREGATION_UNSPECIFIED) {
    v1::Variable& variable = *view_.mutable_declaration()->add_variables();
    variable.set_name(name);
    variable.set_dtype(dtype);
    variable.add_shape(elements);
    variable.set_group(group);
    variable.set_aggregation(aggregation);
    return *this;
  }
  ViewMaker& AddMember(uint64_t worker, uint64_t first_step = 0) {
    v1::Member& member = *view_.add_members();
    member.set_rank(next_rank_++);
    member.set_worker(worker);
    member.set_first_step(first_step);
    view_.mutable_spec()->set_workers(view_.members_size());
    if (view_.initialiser() == 0) view_.set_initialiser(worker);
    return *this;
  }
  ViewMaker& RemoveMember(uint64_t worker) {
    for (int i = 0; i < view_.members_size(); ++i) {
      if (view_.members(i).worker() != worker) continue;
      view_.mutable_members()->DeleteSubrange(i, 1);
      break;
    }
    return *this;
  }
  // What the coordinator does with every change.
  ViewMaker& NextVersion() {
    view_.set_version(view_.version() + 1);
    return *this;
  }
  ViewMaker& NextGeneration() {
    view_.set_generation(view_.generation() + 1);
    return NextVersion();
  }
  v1::JobView& edit() { return view_; }
  const v1::JobView& view() const { return view_; }

  // With the shard map that belongs to the declaration; all on this server but where `elsewhere`
  // says so.
  v1::JobView Make(const std::vector<uint64_t>& elsewhere = {}) const {
    v1::JobView view = view_;
    v1::ShardMap& map = *view.mutable_shard_map();
    const Layout layout = MakeLayout();
    map.set_chunk_bytes(layout.chunk_bytes());
    map.set_shard_bytes(layout.shard_bytes());
    map.clear_server_of_shard();
    for (size_t s = 0; s < layout.shards().size(); ++s) map.add_server_of_shard(0);
    if (elsewhere.empty()) return view;
    map.add_servers()->set_incarnation(kServer + 1);
    for (const uint64_t shard : elsewhere) map.set_server_of_shard(static_cast<int>(shard), 1);
    return view;
  }
  Layout MakeLayout() const {
    std::vector<VariableExtent> extents;
    for (const v1::Variable& variable : view_.declaration().variables()) {
      extents.push_back(
          {.elements = variable.shape(0), .element_bytes = ElementBytes(variable.dtype())});
    }
    return Layout(extents, shard_bytes, chunk_bytes);
  }

  uint64_t chunk_bytes = 0;
  uint64_t shard_bytes = 0;

 private:
  v1::JobView view_;
  uint32_t next_rank_ = 0;
};

}  // namespace weir
