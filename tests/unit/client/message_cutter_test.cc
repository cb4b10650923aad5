// SPDX-License-Identifier: Apache-2.0
#include "client/message_cutter.h"

#include <gmock/gmock.h>

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

// Never read: only addresses are computed.
const std::byte* const kSource = reinterpret_cast<const std::byte*>(uint64_t{1} << 40);

Piece FloatPiece(uint64_t shard, uint64_t elements, uint64_t chunk_elements,
                 const std::byte* source = kSource) {
  return {.shard = shard,
          .first_element = 0,
          .elements = elements,
          .chunk_elements = chunk_elements,
          .element_bytes = 4,
          .source = source};
}

TEST(MessageCutter, SmallPiecesShareAMessage) {
  std::deque<Piece> queue;
  for (uint64_t shard = 0; shard < 1000; ++shard) queue.push_back(FloatPiece(shard, 10, 100));
  EXPECT_THAT(TakeMessage(queue, 1 << 20), SizeIs(1000));
  EXPECT_TRUE(queue.empty());
}

TEST(MessageCutter, NoMessageHasMorePiecesThanItsHeaderBears) {
  std::deque<Piece> queue(kMaxSegments + 1, FloatPiece(0, 1, 100));
  EXPECT_THAT(TakeMessage(queue, 1 << 20), SizeIs(kMaxSegments));
  EXPECT_THAT(queue, SizeIs(1));
}

TEST(MessageCutter, LargePiecesAreCutAtChunks) {
  // 10 chunks of 100 floats; 900 bytes hold two chunks of 400.
  std::deque<Piece> queue = {FloatPiece(3, 950, 100)};
  const std::vector<Piece> first = TakeMessage(queue, 900);
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_EQ(first[0].elements, 200u);
  EXPECT_EQ(queue.front().first_element, 200u);
  EXPECT_EQ(queue.front().source, kSource + 800);
  uint64_t elements = first[0].elements;
  while (!queue.empty()) {
    for (const Piece& piece : TakeMessage(queue, 900)) {
      EXPECT_EQ(piece.first_element, elements);
      elements += piece.elements;
    }
  }
  EXPECT_EQ(elements, 950u);
}

TEST(MessageCutter, ChunkLargerThanThePayloadTravelsAlone) {
  std::deque<Piece> queue = {FloatPiece(0, 250, 100), FloatPiece(1, 1, 100)};
  EXPECT_EQ(TakeMessage(queue, 8)[0].elements, 100u);
  EXPECT_EQ(TakeMessage(queue, 8)[0].elements, 100u);
  EXPECT_EQ(TakeMessage(queue, 8)[0].elements, 50u);
  EXPECT_EQ(TakeMessage(queue, 8)[0].shard, 1u);
  EXPECT_TRUE(queue.empty());
}

TEST(MessageCutter, AbsentPiecesWeighNothing) {
  std::deque<Piece> queue = {FloatPiece(0, 1000000, 100, nullptr), FloatPiece(1, 100, 100)};
  const std::vector<Piece> message = TakeMessage(queue, 400);
  EXPECT_THAT(message, SizeIs(2));
  EXPECT_EQ(WireBytes(message), 400u);
}

TEST(MessageCutter, NoPayloadPassesTheLimitOfAWholeMessage) {
  std::deque<Piece> queue = {FloatPiece(0, 100 << 20, 32768)};
  EXPECT_LE(WireBytes(TakeMessage(queue, uint64_t{1} << 40)), kMaxPayloadBytes);
}

TEST(MessageCutter, SizesBeyondThirtyTwoBitsAreRight) {
  // 3 * 2^31 floats are 24 GiB: 24,576 messages of a MiB.
  constexpr uint64_t kElements = uint64_t{3} << 31;
  std::deque<Piece> queue = {FloatPiece(0, kElements, 32768)};
  uint64_t messages = 0;
  uint64_t bytes = 0;
  Piece last;
  while (!queue.empty()) {
    const std::vector<Piece> message = TakeMessage(queue, 1 << 20);
    bytes += WireBytes(message);
    last = message.back();
    ++messages;
  }
  EXPECT_EQ(messages, 24576u);
  EXPECT_EQ(bytes, 4 * kElements);
  EXPECT_EQ(last.first_element + last.elements, kElements);
  EXPECT_EQ(last.source, kSource + 4 * last.first_element);
}

}  // namespace
}  // namespace weir
