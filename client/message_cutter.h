// SPDX-License-Identifier: Apache-2.0
// How a transfer is cut into messages, of whole chunks and at most payload_bytes each. No chunk is
// split over two messages, and small variables share one:
//
//   shards of one server:  |--------------------|---|--|------------------|  in the layout's order
//   messages:              |---------|----------|---|--|----|-------------|
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/types/span.h"

namespace weir {

// A run of whole chunks of one shard, and the caller's memory behind it.
struct Piece {
  uint64_t shard = 0;
  uint64_t first_element = 0;  // within the shard
  uint64_t elements = 0;       // 0: only the push's step is told to the shard's server
  uint64_t chunk_elements = 0;
  uint32_t element_bytes = 0;
  const std::byte* source = nullptr;  // pushed from; nullptr: absent, or a pull
  std::byte* destination = nullptr;   // pulled into; nullptr: a push without an answer
  // Of a collective, where `shard` is the piece's index: the run comes once in each block.
  uint64_t blocks = 1;
  uint64_t block_bytes = 0;

  uint64_t data_bytes() const { return blocks * elements * element_bytes; }
  // Of payload, in the direction that has more of it.
  uint64_t wire_bytes() const {
    return source != nullptr || destination != nullptr ? data_bytes() : 0;
  }
};

// Keeps the header of a message small beside its payload.
inline constexpr size_t kMaxSegments = 4096;
// Leaves room for kMaxSegments segments below the 4,194,304 bytes of a whole message.
inline constexpr uint64_t kMaxPayloadBytes = 3'900'000;

uint64_t WireBytes(absl::Span<const Piece> pieces);

// Takes off the front of `queue` what one message carries: whole chunks, at most `payload_bytes` of
// them but one at least, in at most kMaxSegments pieces. `queue` must not be empty.
std::vector<Piece> TakeMessage(std::deque<Piece>& queue, uint64_t payload_bytes);

}  // namespace weir
