// SPDX-License-Identifier: Apache-2.0
#include "server/store_plan.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/dtype.h"
#include "rpc/regime.h"

namespace weir {
namespace {

// Number of elements of a shape; an error where 64 bits do not hold its bytes.
absl::StatusOr<uint64_t> CountElements(const v1::Variable& variable, uint32_t element_bytes) {
  if (std::find(variable.shape().begin(), variable.shape().end(), 0u) != variable.shape().end()) {
    return 0;
  }
  uint64_t elements = 1;
  for (const uint64_t extent : variable.shape()) {
    if (extent > std::numeric_limits<uint64_t>::max() / element_bytes / elements) {
      return absl::InvalidArgumentError(
          absl::StrCat("variable '", variable.name(), "' has more bytes than 64 bits can count"));
    }
    elements *= extent;
  }
  return elements;
}

absl::StatusOr<v1::Aggregation> ResolveAggregation(const v1::Variable& variable) {
  const bool is_float = IsFloating(variable.dtype());
  switch (variable.aggregation()) {
    case v1::AGGREGATION_UNSPECIFIED:
      return is_float ? v1::AGGREGATION_MEAN : v1::AGGREGATION_MAX;
    case v1::AGGREGATION_MEAN:
      if (is_float) return v1::AGGREGATION_MEAN;
      return absl::InvalidArgumentError(absl::StrCat("state variable '", variable.name(), "' is ",
                                                     v1::DType_Name(variable.dtype()),
                                                     ", of which there is no mean; use MAX"));
    case v1::AGGREGATION_SUM:
    case v1::AGGREGATION_MIN:
    case v1::AGGREGATION_MAX:
    case v1::AGGREGATION_FIRST:
    case v1::AGGREGATION_LAST_WRITE:
      return variable.aggregation();
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("state variable '", variable.name(), "' has an unknown aggregation"));
  }
}

absl::StatusOr<VariablePlan> PlanVariable(const v1::Variable& variable, int groups) {
  VariablePlan plan;
  plan.name = variable.name();
  plan.dtype = variable.dtype();
  plan.element_bytes = ElementBytes(variable.dtype());
  plan.group = variable.group();
  if (plan.element_bytes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("variable '", variable.name(), "' has an unknown dtype"));
  }
  if (plan.group > static_cast<uint32_t>(groups)) {
    return absl::InvalidArgumentError(
        absl::StrCat("variable '", variable.name(), "' is in group ", plan.group, " of ", groups));
  }
  WEIR_ASSIGN_OR_RETURN(plan.elements, CountElements(variable, plan.element_bytes));
  if (plan.group == 0) {
    WEIR_ASSIGN_OR_RETURN(plan.aggregation, ResolveAggregation(variable));
  }
  return plan;
}

std::vector<VariableExtent> ExtentsOf(absl::Span<const VariablePlan> variables) {
  std::vector<VariableExtent> extents;
  extents.reserve(variables.size());
  for (const VariablePlan& variable : variables) {
    extents.push_back({.elements = variable.elements, .element_bytes = variable.element_bytes});
  }
  return extents;
}

// Before a layout is made: its number of shards must be the map's, or a contradictory view could
// ask for any amount of memory.
absl::Status CheckShardMap(const v1::ShardMap& map, absl::Span<const VariableExtent> extents) {
  if (map.chunk_bytes() == 0 || map.chunk_bytes() % 8 != 0 || map.shard_bytes() == 0 ||
      map.shard_bytes() % map.chunk_bytes() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the shard map has shards of ", map.shard_bytes(), " bytes and chunks of ",
                     map.chunk_bytes(), "; shards are whole chunks, chunks a multiple of 8 bytes"));
  }
  WEIR_RETURN_IF_ERROR(CheckLayout(extents, map.shard_bytes(), map.chunk_bytes()));
  uint64_t shards = 0;
  for (const VariableExtent& extent : extents) {
    const uint64_t bytes = extent.elements * extent.element_bytes;
    shards += bytes / map.shard_bytes() + (bytes % map.shard_bytes() != 0);
  }
  if (shards != static_cast<uint64_t>(map.server_of_shard_size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("the shard map places ", map.server_of_shard_size(), " shards of ", shards));
  }
  for (const uint32_t server : map.server_of_shard()) {
    if (server >= static_cast<uint32_t>(map.servers_size())) {
      return absl::InvalidArgumentError(absl::StrCat("the shard map places a shard on server ",
                                                     server, " of ", map.servers_size()));
    }
  }
  return absl::OkStatus();
}

uint64_t QuorumOf(const v1::JobSpec& spec) {
  const uint64_t backup = spec.regime().backup_workers();
  if (spec.regime().kind() != v1::REGIME_SYNC || backup == 0) return 0;
  return spec.workers() > backup ? spec.workers() - backup : 1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const StorePlan>> StorePlan::Create(const v1::JobView& view,
                                                                   uint64_t server_incarnation) {
  std::vector<VariablePlan> variables;
  variables.reserve(view.declaration().variables_size());
  for (const v1::Variable& variable : view.declaration().variables()) {
    WEIR_ASSIGN_OR_RETURN(VariablePlan plan,
                          PlanVariable(variable, view.declaration().groups_size()));
    variables.push_back(std::move(plan));
  }
  const std::vector<VariableExtent> extents = ExtentsOf(variables);
  const v1::ShardMap& map = view.shard_map();
  WEIR_RETURN_IF_ERROR(CheckShardMap(map, extents));
  std::unique_ptr<StorePlan> plan(new StorePlan(
      view, std::move(variables), Layout(extents, map.shard_bytes(), map.chunk_bytes())));
  WEIR_RETURN_IF_ERROR(plan->MakeRules());
  plan->PlaceShards(map, server_incarnation);
  return plan;
}

StorePlan::StorePlan(const v1::JobView& view, std::vector<VariablePlan> variables, Layout layout)
    : declaration_(view.declaration()),
      sync_(IsSync(view.spec())),
      sync_groups_(SyncGroups(view.spec())),
      bounded_staleness_(view.spec().regime().kind() == v1::REGIME_BOUNDED_STALENESS
                             ? view.spec().regime().bounded_staleness()
                             : 0),
      quorum_(QuorumOf(view.spec())),
      deterministic_(view.spec().deterministic()),
      rate_scale_(view.spec().regime().learning_rate_scale()),
      workers_(std::max<uint64_t>(1, view.spec().workers())),
      variables_(std::move(variables)),
      layout_(std::move(layout)) {}

absl::Status StorePlan::MakeRules() {
  groups_.push_back({.name = "state"});
  for (const v1::OptimizerGroup& group : declaration_.groups()) {
    groups_.push_back({.name = group.name()});
  }
  absl::flat_hash_map<std::pair<uint32_t, int>, const UpdateRule*> rules;
  for (VariablePlan& variable : variables_) {
    if (variable.group == 0) continue;
    const v1::Optimizer& optimizer = declaration_.groups(variable.group - 1).optimizer();
    const UpdateRule*& rule = rules[{variable.group, variable.dtype}];
    if (rule == nullptr) {
      absl::StatusOr<std::unique_ptr<UpdateRule>> made =
          UpdateRule::Create(optimizer, variable.dtype);
      if (!made.ok()) {
        return absl::Status(
            made.status().code(),
            absl::StrCat("variable '", variable.name, "' in group '", groups_[variable.group].name,
                         "': ", made.status().message()));
      }
      rule = made->get();
      rules_.push_back(*std::move(made));
    }
    variable.rule = rule;
    variable.schedule = &optimizer.learning_rate();
  }
  return absl::OkStatus();
}

void StorePlan::PlaceShards(const v1::ShardMap& map, uint64_t server_incarnation) {
  const uint64_t accumulators = sync_ ? (deterministic_ ? workers_ : 1) : sync_groups_;
  for (const Shard& shard : layout_.shards()) {
    const uint32_t server = map.server_of_shard(static_cast<int>(shard.id));
    if (map.servers(static_cast<int>(server)).incarnation() != server_incarnation) continue;
    const VariablePlan& variable = variables_[static_cast<size_t>(shard.variable)];
    GroupPlan& group = groups_[variable.group];
    by_id_[static_cast<uint64_t>(shard.id)] = shards_.size();
    shards_.push_back({.shard = shard, .variable = &variable, .first_chunk = group.chunks});
    group.chunks += shard.num_chunks();
    const bool state = variable.group == 0;
    const uint64_t slots = state ? 0 : variable.rule->num_slots();
    saved_bytes_ += shard.bytes() * (1 + slots);
    planned_bytes_ += shard.bytes() * (1 + slots + (state ? workers_ : accumulators));
  }
}

const LocalShard* StorePlan::Find(ShardId shard) const {
  const auto found = by_id_.find(static_cast<uint64_t>(shard));
  return found == by_id_.end() ? nullptr : &shards_[found->second];
}

}  // namespace weir
