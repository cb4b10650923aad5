// SPDX-License-Identifier: Apache-2.0
// How the elements of a job's variables are cut into shards and chunks, and where shards live.
//
//   variable:   |-------------------------------------------------|  elements of one dense tensor
//   shards:     |---------------|----------------|----------------|  placed, moved, checkpointed
//   chunks:     |----|----|-----|----|----|------|----|----|------|  locked, versioned, counted
//
// Boundaries depend on the variable, on shard_bytes and on chunk_bytes alone, never on servers.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace weir {

enum class VariableId : uint64_t {};  // position in the job's declaration
// Position among all shards of the job, by variable, then by element.
enum class ShardId : uint64_t {};

struct VariableExtent {
  uint64_t elements = 0;
  uint32_t element_bytes = 4;
};

// Chunk sizes are in elements of the shard's variable; the last chunk of a shard may be shorter.
struct Shard {
  ShardId id{};
  VariableId variable{};
  uint64_t first_element = 0;  // within the variable
  uint64_t elements = 0;       // never 0: a variable without elements has no shard
  uint64_t chunk_elements = 0;
  uint32_t element_bytes = 4;

  uint64_t bytes() const { return elements * element_bytes; }
  uint64_t num_chunks() const { return (elements + chunk_elements - 1) / chunk_elements; }
};

inline constexpr uint64_t kDefaultChunkBytes = 128 << 10;

// total / 256, clamped to 256 KiB .. 4 MiB: what a job without a wish of its own gets.
uint64_t DefaultShardBytes(uint64_t total_bytes);

// What one job may have: 16 TiB of variables at the default size of large jobs' shards.
inline constexpr uint64_t kMostShards = 4 << 20;

// Whether a Layout of these, which may come from the network, can be made: it is not to be before.
// Errors: InvalidArgument - elements of no bytes, chunks below one element, or more than 2^62
// bytes; ResourceExhausted - more than kMostShards shards.
absl::Status CheckLayout(absl::Span<const VariableExtent> variables, uint64_t shard_bytes,
                         uint64_t chunk_bytes = kDefaultChunkBytes);

// Immutable, thread-safe.
class Layout {
 public:
  // Variables and sizes that CheckLayout refuses must not come here. shard_bytes 0:
  // DefaultShardBytes of the whole; else rounded up to whole chunks.
  Layout(absl::Span<const VariableExtent> variables, uint64_t shard_bytes,
         uint64_t chunk_bytes = kDefaultChunkBytes);

  uint64_t shard_bytes() const { return shard_bytes_; }
  uint64_t chunk_bytes() const { return chunk_bytes_; }
  absl::Span<const Shard> shards() const { return shards_; }
  absl::Span<const Shard> ShardsOf(VariableId variable) const;
  uint64_t total_bytes() const { return total_bytes_; }

 private:
  uint64_t shard_bytes_;
  uint64_t chunk_bytes_;
  uint64_t total_bytes_ = 0;
  std::vector<Shard> shards_;
  std::vector<uint64_t> first_shard_;  // by variable, and one more
};

// Largest first onto the least loaded of `servers` >= 1. By shard: the index of its server.
// Deterministic: ties go to the lower shard and the lower server.
std::vector<uint32_t> PlaceShards(absl::Span<const Shard> shards, uint32_t servers);

}  // namespace weir
