// SPDX-License-Identifier: Apache-2.0
// The client's side of one collective (docs/collectives.md): its pieces, and where their answers
// go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/message_cutter.h"
#include "client/routes.h"
#include "rpc/parameter_endpoint.h"
#include "weir/reduce.h"

namespace weir {

// One collective under way: how it is cut into pieces, and where what comes back belongs.
// Thread-compatible, guarded by the engine's mutex, but Take: that writes the caller's memory, each
// piece its own part.
class CollectiveTransfer {
 public:
  // `data` and `result` are in use until the transfer ends. Errors: InvalidArgument - names the
  // collective and the field; FailedPrecondition - workers without steps in common.
  static absl::StatusOr<std::unique_ptr<CollectiveTransfer>> Create(
      const Routes& routes, WorkerId worker, absl::Span<const std::byte> data,
      const ReduceOptions& options, std::vector<std::byte>& result);

  const v1::ReduceRequest& header() const { return header_; }
  bool opens_step() const { return header_.ordinal() == 0; }
  void SetPlace(uint64_t sequence, uint64_t step_generation);

  // Goes alone; the others when it is answered.
  Piece FirstPiece() const;
  std::vector<Piece> LaterPieces() const;
  // Of payload, in the direction that has more of it.
  uint64_t WireBytes(const Piece& piece) const;
  v1::ReduceRequest RequestOf(const Piece& piece) const;

  // Writes what has come for one piece; that of piece 0 also says how large the result is.
  // Errors: Internal - the reply does not fit.
  absl::Status Take(const Piece& piece, const ReduceResult& reply);
  // Its answer has been taken.
  void Finish(const Piece& piece, const v1::ReduceReply& reply);

  uint64_t generation() const { return generation_; }
  ReduceStats stats() const { return stats_; }

 private:
  CollectiveTransfer() = default;
  Piece PieceAt(uint64_t index, uint64_t first, uint64_t count) const;

  v1::ReduceRequest header_;  // without context and piece
  uint64_t elements_ = 0;     // of one replica's contribution
  uint32_t element_bytes_ = 0;
  const std::byte* data_ = nullptr;  // null: a broadcast's other members
  uint64_t blocks_ = 1;              // that are sent
  uint64_t first_count_ = 0;         // elements of piece 0
  std::vector<std::byte>* result_ = nullptr;

  uint64_t result_blocks_ = 1;   // known from piece 0's answer on
  uint64_t piece_elements_ = 1;  // the same
  uint64_t generation_ = 0;      // the same
  ReduceStats stats_;
  std::set<uint64_t> finished_;  // pieces beyond pieces_done
  uint64_t pieces_done_ = 0;
};

// The server that a piece of a collective goes to: spreads jobs, and the pieces of one collective.
// Piece 0 always comes to the same, where members who call different things meet.
uint32_t ServerOfPiece(const v1::JobView& view, uint64_t piece);

}  // namespace weir
