// SPDX-License-Identifier: Apache-2.0
#include "client/message_cutter.h"

#include <algorithm>

namespace weir {
namespace {

// Splits the first `elements` elements off.
Piece SplitFront(Piece& piece, uint64_t elements) {
  Piece front = piece;
  front.elements = elements;
  const uint64_t bytes = elements * piece.element_bytes;
  piece.first_element += elements;
  piece.elements -= elements;
  if (piece.source != nullptr) piece.source += bytes;
  if (piece.destination != nullptr) piece.destination += bytes;
  return front;
}

}  // namespace

uint64_t WireBytes(absl::Span<const Piece> pieces) {
  uint64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.wire_bytes();
  return bytes;
}

std::vector<Piece> TakeMessage(std::deque<Piece>& queue, uint64_t payload_bytes) {
  std::vector<Piece> message;
  uint64_t left = std::min(payload_bytes, kMaxPayloadBytes);
  while (!queue.empty() && message.size() < kMaxSegments) {
    Piece& next = queue.front();
    if (next.wire_bytes() <= left) {
      left -= next.wire_bytes();
      message.push_back(next);
      queue.pop_front();
      continue;
    }
    uint64_t chunks = left / (next.chunk_elements * next.element_bytes);
    if (chunks == 0 && message.empty()) chunks = 1;
    if (chunks > 0 && chunks * next.chunk_elements < next.elements) {
      message.push_back(SplitFront(next, chunks * next.chunk_elements));
    } else if (message.empty()) {  // its only chunk is larger than the payload asked for
      message.push_back(next);
      queue.pop_front();
    }
    break;
  }
  return message;
}

}  // namespace weir
