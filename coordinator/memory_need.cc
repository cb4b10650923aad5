// SPDX-License-Identifier: Apache-2.0
#include "coordinator/memory_need.h"

#include "rpc/regime.h"

namespace weir {

uint64_t SlotsOf(const v1::Optimizer& optimizer) {
  switch (optimizer.kind_case()) {
    case v1::Optimizer::kSgd:
      return optimizer.sgd().momentum() != 0 ? 1 : 0;
    case v1::Optimizer::kAdagrad:
      return 1;
    case v1::Optimizer::kRmsprop:
      return 1 + (optimizer.rmsprop().momentum() > 0 ? 1 : 0) +
             (optimizer.rmsprop().centered() ? 1 : 0);
    case v1::Optimizer::kAdam:
      return optimizer.adam().amsgrad() ? 3 : 2;
    case v1::Optimizer::kAdamw:
      return optimizer.adamw().amsgrad() ? 3 : 2;
    case v1::Optimizer::kAverage:
    case v1::Optimizer::KIND_NOT_SET:
      return 0;
  }
  return 0;
}

std::vector<uint64_t> BytesByServer(const v1::JobSpec& spec, const v1::Declaration& declaration,
                                    const Layout& layout, const v1::ShardMap& map) {
  const uint64_t accumulators =
      IsSync(spec) ? (spec.deterministic() ? spec.workers() : 1) : SyncGroups(spec);
  std::vector<uint64_t> bytes(map.servers_size(), 0);
  for (const Shard& shard : layout.shards()) {
    const v1::Variable& variable = declaration.variables(static_cast<int>(shard.variable));
    // State keeps the latest value of each worker beside the aggregate.
    const uint64_t copies =
        variable.group() == 0
            ? 1 + spec.workers()
            : 1 + SlotsOf(declaration.groups(variable.group() - 1).optimizer()) + accumulators;
    bytes[map.server_of_shard(static_cast<int>(shard.id))] += shard.bytes() * copies;
  }
  return bytes;
}

}  // namespace weir
