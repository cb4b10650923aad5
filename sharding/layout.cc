// SPDX-License-Identifier: Apache-2.0
#include "sharding/layout.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

constexpr uint64_t kMostBytes = 1ull << 62;  // sums of sizes below it do not overflow

uint64_t RoundUp(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

uint64_t ShardBytes(uint64_t wished, uint64_t total_bytes, uint64_t chunk_bytes) {
  return RoundUp(wished == 0 ? DefaultShardBytes(total_bytes) : wished, chunk_bytes);
}

}  // namespace

uint64_t DefaultShardBytes(uint64_t total_bytes) {
  constexpr uint64_t kLeast = 256 << 10;
  constexpr uint64_t kMost = 4 << 20;
  return std::clamp(total_bytes / 256, kLeast, kMost);
}

absl::Status CheckLayout(absl::Span<const VariableExtent> variables, uint64_t shard_bytes,
                         uint64_t chunk_bytes) {
  if (shard_bytes > kMostBytes || chunk_bytes > kMostBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("shards of ", shard_bytes, " bytes or chunks of ", chunk_bytes,
                     " bytes are beyond the most possible, ", kMostBytes));
  }
  if (chunk_bytes == 0) {
    return absl::InvalidArgumentError("chunks of 0 bytes hold no elements");
  }
  uint64_t total_bytes = 0;
  for (size_t v = 0; v < variables.size(); ++v) {
    const auto& [elements, element_bytes] = variables[v];
    if (element_bytes == 0 || element_bytes > chunk_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("variable ", v, " has elements of ", element_bytes,
                       " bytes, which do not fit chunks of ", chunk_bytes, " bytes"));
    }
    if (elements > (kMostBytes - total_bytes) / element_bytes) {
      return absl::InvalidArgumentError(absl::StrCat("variable ", v, " of ", elements,
                                                     " elements takes the job beyond ", kMostBytes,
                                                     " bytes"));
    }
    total_bytes += elements * element_bytes;
  }
  const uint64_t rounded = ShardBytes(shard_bytes, total_bytes, chunk_bytes);
  uint64_t shards = 0;
  for (const auto& [elements, element_bytes] : variables) {
    shards += RoundUp(elements, rounded / element_bytes) / (rounded / element_bytes);
  }
  if (shards <= kMostShards) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the job's ", total_bytes, " bytes make ", shards, " shards of ", rounded,
                   " bytes, but a job may have at most ", kMostShards, "; ask for larger shards"));
}

Layout::Layout(absl::Span<const VariableExtent> variables, uint64_t shard_bytes,
               uint64_t chunk_bytes)
    : chunk_bytes_(chunk_bytes) {
  for (const VariableExtent& variable : variables) {
    total_bytes_ += variable.elements * variable.element_bytes;
  }
  shard_bytes_ = ShardBytes(shard_bytes, total_bytes_, chunk_bytes_);

  first_shard_.reserve(variables.size() + 1);
  for (size_t v = 0; v < variables.size(); ++v) {
    first_shard_.push_back(shards_.size());
    const VariableExtent& variable = variables[v];
    const uint64_t shard_elements = shard_bytes_ / variable.element_bytes;
    for (uint64_t first = 0; first < variable.elements; first += shard_elements) {
      shards_.push_back({.id = static_cast<ShardId>(shards_.size()),
                         .variable = static_cast<VariableId>(v),
                         .first_element = first,
                         .elements = std::min(shard_elements, variable.elements - first),
                         .chunk_elements = chunk_bytes_ / variable.element_bytes,
                         .element_bytes = variable.element_bytes});
    }
  }
  first_shard_.push_back(shards_.size());
}

absl::Span<const Shard> Layout::ShardsOf(VariableId variable) const {
  const auto v = static_cast<size_t>(variable);
  const uint64_t first = first_shard_[v];
  return absl::MakeConstSpan(shards_).subspan(first, first_shard_[v + 1] - first);
}

std::vector<uint32_t> PlaceShards(absl::Span<const Shard> shards, uint32_t servers) {
  std::vector<uint32_t> by_size(shards.size());
  std::iota(by_size.begin(), by_size.end(), 0);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](uint32_t a, uint32_t b) { return shards[a].bytes() > shards[b].bytes(); });

  using Load = std::pair<uint64_t, uint32_t>;  // bytes, server
  std::priority_queue<Load, std::vector<Load>, std::greater<>> least_loaded;
  for (uint32_t server = 0; server < servers; ++server) least_loaded.push({0, server});

  std::vector<uint32_t> server_of_shard(shards.size());
  for (const uint32_t shard : by_size) {
    auto [bytes, server] = least_loaded.top();
    least_loaded.pop();
    server_of_shard[shard] = server;
    least_loaded.push({bytes + shards[shard].bytes(), server});
  }
  return server_of_shard;
}

}  // namespace weir
