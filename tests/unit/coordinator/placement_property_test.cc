// SPDX-License-Identifier: Apache-2.0
// What holds of a job's shard map on any number of servers.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "coordinator/declaration_check.h"
#include "coordinator/placement.h"
#include "sharding/layout.h"

namespace weir {
namespace {

constexpr uint64_t kKiB = 1 << 10;

v1::Declaration AnyDeclaration() {
  // None, few, about a chunk, and many chunks.
  const auto elements =
      rc::gen::oneOf(rc::gen::just<uint64_t>(0), rc::gen::inRange<uint64_t>(1, 100),
                     rc::gen::inRange<uint64_t>(16 * kKiB - 2, 16 * kKiB + 3),
                     rc::gen::inRange<uint64_t>(1, 3'000'000));
  v1::Declaration declaration;
  for (const uint64_t size : *rc::gen::container<std::vector<uint64_t>>(elements)) {
    v1::Variable& variable = *declaration.add_variables();
    variable.set_name(absl::StrCat("v", declaration.variables_size()));
    variable.set_dtype(*rc::gen::element(v1::DTYPE_F32, v1::DTYPE_F64, v1::DTYPE_BOOL));
    variable.add_shape(size);
  }
  return declaration;
}

PlacementOptions AnyOptions() {
  return {.shard_bytes = *rc::gen::oneOf(rc::gen::just<uint64_t>(0),
                                         rc::gen::inRange<uint64_t>(1, 8192 * kKiB)),
          .chunk_bytes = *rc::gen::element<uint64_t>(0, 64 * kKiB, 256 * kKiB)};
}

Placement Place(const v1::Declaration& declaration, uint32_t servers,
                const PlacementOptions& options) {
  std::vector<v1::ServerInfo> infos(servers);
  for (uint32_t i = 0; i < servers; ++i) infos[i].set_name(absl::StrCat("server-", i));
  auto placement = PlaceJob(v1::JobSpec(), declaration, infos, options);
  RC_ASSERT(placement.ok());
  return *std::move(placement);
}

// As a server or a client cuts them, of the map that it has been sent.
Layout LayoutOf(const v1::Declaration& declaration, const v1::ShardMap& map) {
  return Layout(ExtentsOf(declaration), map.shard_bytes(), map.chunk_bytes());
}

bool SameBoundaries(const Layout& a, const Layout& b) {
  return std::equal(a.shards().begin(), a.shards().end(), b.shards().begin(), b.shards().end(),
                    [](const Shard& left, const Shard& right) {
                      return left.id == right.id && left.variable == right.variable &&
                             left.first_element == right.first_element &&
                             left.elements == right.elements &&
                             left.chunk_elements == right.chunk_elements;
                    });
}

RC_GTEST_PROP(PlaceJob, BoundariesDoNotDependOnServers, ()) {
  const v1::Declaration declaration = AnyDeclaration();
  const PlacementOptions options = AnyOptions();
  const Layout on_one = LayoutOf(declaration, Place(declaration, 1, options).map);
  for (const uint32_t servers : {2u, 3u, 17u}) {
    const Placement placement = Place(declaration, servers, options);
    RC_ASSERT(SameBoundaries(LayoutOf(declaration, placement.map), on_one));
  }
}

RC_GTEST_PROP(PlaceJob, EveryShardHasAServerAndEachServerWhatThereIsForIt, ()) {
  const v1::Declaration declaration = AnyDeclaration();
  const PlacementOptions options = AnyOptions();
  for (const uint32_t servers : {1u, 2u, 3u, 17u}) {
    const Placement placement = Place(declaration, servers, options);
    const Layout layout = LayoutOf(declaration, placement.map);
    const v1::ShardMap& map = placement.map;
    RC_ASSERT(map.servers_size() == static_cast<int>(servers));
    RC_ASSERT(map.server_of_shard_size() == static_cast<int>(layout.shards().size()));
    std::vector<uint64_t> bytes(servers);
    for (const Shard& shard : layout.shards()) {
      const uint32_t server = map.server_of_shard(static_cast<int>(shard.id));
      RC_ASSERT(server < servers);
      bytes[server] += shard.bytes();
    }
    const auto used = std::count_if(bytes.begin(), bytes.end(), [](uint64_t b) { return b > 0; });
    RC_ASSERT(used == static_cast<long>(std::min<size_t>(servers, layout.shards().size())));
    RC_ASSERT(static_cast<long>(HoldersOf(map).size()) == used);
    RC_ASSERT(std::accumulate(bytes.begin(), bytes.end(), uint64_t{0}) == layout.total_bytes());
  }
}

}  // namespace
}  // namespace weir
