// SPDX-License-Identifier: Apache-2.0
#include "tests/support/hand_made_view.h"

#include "absl/strings/str_cat.h"
#include "client/declaration_proto.h"
#include "sharding/layout.h"

namespace weir {

v1::JobView HandMadeView::Make() const {
  v1::JobView view;
  view.set_run_id(run_id);
  view.set_name("hand-made");
  view.set_version(version);
  view.set_term(1);
  view.set_attempt(attempt);
  view.set_generation(generation);
  view.set_state(state);
  view.set_cut(cut);
  view.mutable_spec()->set_name("hand-made");
  *view.mutable_spec()->mutable_regime() = regime_options;
  view.mutable_spec()->mutable_regime()->set_kind(regime);
  view.mutable_spec()->set_deterministic(deterministic);
  view.mutable_spec()->set_workers(static_cast<uint32_t>(workers.size()));
  *view.mutable_declaration() = ToProto(declaration);
  for (size_t rank = 0; rank < workers.size(); ++rank) {
    v1::Member& member = *view.add_members();
    member.set_rank(static_cast<uint32_t>(rank));
    member.set_worker(workers[rank]);
    if (regime == v1::REGIME_SYNC_GROUPS) {
      member.set_sync_group(static_cast<uint32_t>(rank / regime_options.sync_group_size()));
    }
    if (rank + 1 == workers.size()) member.set_first_step(first_step_of_last);
  }
  if (!workers.empty()) view.set_initialiser(workers.front());
  std::vector<VariableExtent> extents;
  for (const VariableSpec& variable : declaration.variables) {
    extents.push_back({variable.elements(), static_cast<uint32_t>(weir::SizeOf(variable.dtype))});
  }
  const Layout layout(extents, shard_bytes, chunk_bytes == 0 ? kDefaultChunkBytes : chunk_bytes);
  v1::ShardMap& map = *view.mutable_shard_map();
  map.set_version(shard_map_version);
  map.set_shard_bytes(layout.shard_bytes());
  map.set_chunk_bytes(layout.chunk_bytes());
  for (const v1::ServerInfo& server : servers) *map.add_servers() = server;
  if (servers.empty()) return view;
  for (const uint32_t server :
       PlaceShards(layout.shards(), static_cast<uint32_t>(servers.size()))) {
    map.add_server_of_shard(server);
  }
  return view;
}

v1::ServerInfo ServerNamed(const std::string& name, uint64_t incarnation) {
  v1::ServerInfo info;
  info.set_name(name);
  info.set_address(name + ":1");
  info.set_incarnation(incarnation);
  return info;
}

Declaration SgdOver(const std::vector<uint64_t>& elements) {
  Declaration declaration;
  for (size_t i = 0; i < elements.size(); ++i) {
    VariableSpec variable;
    variable.name = absl::StrCat("v", i);
    variable.shape = {elements[i]};
    declaration.variables.push_back(variable);
  }
  OptimizerGroup group;
  group.name = "sgd";
  group.learning_rate.base = 1;
  group.optimizer = Sgd{};
  declaration.groups.push_back(group);
  return declaration;
}

}  // namespace weir
