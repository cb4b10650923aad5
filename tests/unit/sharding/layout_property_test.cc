// SPDX-License-Identifier: Apache-2.0
// What holds for any variables, shard size and chunk size.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "sharding/layout.h"

namespace weir {
namespace {

constexpr uint64_t kKiB = 1 << 10;

struct Wish {
  std::vector<VariableExtent> variables;
  uint64_t shard_bytes = 0;
  uint64_t chunk_bytes = 0;
};

rc::Gen<VariableExtent> AnyVariable() {
  // Few elements, none, about a chunk, and many chunks: each at every size of the generator.
  const auto elements =
      rc::gen::oneOf(rc::gen::just<uint64_t>(0), rc::gen::inRange<uint64_t>(1, 100),
                     rc::gen::inRange<uint64_t>(16 * kKiB - 2, 16 * kKiB + 3),
                     rc::gen::inRange<uint64_t>(1, 3'000'000));
  return rc::gen::map(rc::gen::pair(elements, rc::gen::element<uint32_t>(1, 4, 8)),
                      [](const auto& pair) {
                        return VariableExtent{.elements = pair.first, .element_bytes = pair.second};
                      });
}

Wish AnyWish() {
  Wish wish;
  wish.variables = *rc::gen::container<std::vector<VariableExtent>>(AnyVariable());
  wish.chunk_bytes = *rc::gen::element<uint64_t>(64 * kKiB, 128 * kKiB, 256 * kKiB);
  wish.shard_bytes =
      *rc::gen::oneOf(rc::gen::just<uint64_t>(0), rc::gen::inRange<uint64_t>(1, 8192 * kKiB));
  return wish;
}

Layout Lay(const Wish& wish) {
  RC_ASSERT(CheckLayout(wish.variables, wish.shard_bytes, wish.chunk_bytes).ok());
  return Layout(wish.variables, wish.shard_bytes, wish.chunk_bytes);
}

bool SameExtent(const Shard& a, const Shard& b) {
  return a.first_element == b.first_element && a.elements == b.elements &&
         a.chunk_elements == b.chunk_elements;
}

RC_GTEST_PROP(Layout, EveryElementBelongsToExactlyOneShardAndChunk, ()) {
  const Wish wish = AnyWish();
  const Layout layout = Lay(wish);
  uint64_t next_id = 0;
  for (size_t v = 0; v < wish.variables.size(); ++v) {
    uint64_t next_element = 0;
    for (const Shard& shard : layout.ShardsOf(static_cast<VariableId>(v))) {
      RC_ASSERT(static_cast<uint64_t>(shard.id) == next_id++);
      RC_ASSERT(static_cast<size_t>(shard.variable) == v);
      RC_ASSERT(shard.first_element == next_element);
      RC_ASSERT(shard.elements > 0u);
      RC_ASSERT(shard.bytes() <= layout.shard_bytes());
      RC_ASSERT((shard.num_chunks() - 1) * shard.chunk_elements < shard.elements);
      RC_ASSERT(shard.num_chunks() * shard.chunk_elements >= shard.elements);
      RC_ASSERT(shard.chunk_elements * shard.element_bytes == wish.chunk_bytes);
      next_element += shard.elements;
    }
    RC_ASSERT(next_element == wish.variables[v].elements);
  }
  RC_ASSERT(next_id == layout.shards().size());
}

RC_GTEST_PROP(Layout, BoundariesOfAVariableDoNotDependOnOthers, ()) {
  Wish wish = AnyWish();
  wish.shard_bytes = std::max<uint64_t>(wish.shard_bytes, 1);  // 0 would depend on the total
  const Layout among = Lay(wish);
  for (size_t v = 0; v < wish.variables.size(); ++v) {
    const Layout alone = Lay({{wish.variables[v]}, wish.shard_bytes, wish.chunk_bytes});
    const auto shards = among.ShardsOf(static_cast<VariableId>(v));
    RC_ASSERT(std::equal(shards.begin(), shards.end(), alone.shards().begin(), alone.shards().end(),
                         SameExtent));
  }
}

// Few variables hold nearly everything, as an embedding or a last layer does.
std::vector<VariableExtent> SkewedModel() {
  const auto small = *rc::gen::container<std::vector<uint64_t>>(
      rc::gen::oneOf(rc::gen::inRange<uint64_t>(0, 2000), rc::gen::inRange<uint64_t>(0, 100'000)));
  const auto large = *rc::gen::nonEmpty(
      rc::gen::container<std::vector<uint64_t>>(rc::gen::inRange<uint64_t>(1'000'000, 50'000'000)));
  std::vector<VariableExtent> variables;
  for (const uint64_t elements : small) variables.push_back({elements, 4});
  for (const uint64_t elements : large) {
    variables.insert(variables.begin() + *rc::gen::inRange<size_t>(0, variables.size() + 1),
                     {elements, 4});
  }
  return variables;
}

RC_GTEST_PROP(PlaceShards, NoServerHoldsMuchMoreThanTheMean, ()) {
  const Wish wish = {SkewedModel(), 0, kDefaultChunkBytes};
  const Layout layout = Lay(wish);
  const uint64_t most_servers = layout.total_bytes() / (10 * layout.shard_bytes());
  RC_PRE(most_servers >= 1);
  const auto servers = *rc::gen::inRange<uint32_t>(1, static_cast<uint32_t>(most_servers) + 1);

  const std::vector<uint32_t> server_of_shard = PlaceShards(layout.shards(), servers);
  std::vector<uint64_t> load(servers);
  for (size_t s = 0; s < server_of_shard.size(); ++s) {
    load[server_of_shard[s]] += layout.shards()[s].bytes();
  }
  const uint64_t sum = std::accumulate(load.begin(), load.end(), uint64_t{0});
  RC_ASSERT(sum == layout.total_bytes());
  const double mean = static_cast<double>(sum) / servers;
  RC_ASSERT(static_cast<double>(*std::max_element(load.begin(), load.end())) <= 1.1 * mean);
}

RC_GTEST_PROP(PlaceShards, IsDeterministic, ()) {
  const Layout layout = Lay(AnyWish());
  const auto servers = *rc::gen::inRange<uint32_t>(1, 9);
  RC_ASSERT(PlaceShards(layout.shards(), servers) == PlaceShards(layout.shards(), servers));
}

}  // namespace
}  // namespace weir
