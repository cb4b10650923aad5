// SPDX-License-Identifier: Apache-2.0
#include "client/collective_transfer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "rpc/collective_text.h"
#include "rpc/errors.h"
#include "rpc/protocol.h"

namespace weir {
namespace {

// Of piece 0, in the direction that has more: before it nobody has agreed on more.
constexpr uint64_t kFirstPieceBytes = 256 << 10;

v1::ReduceOp ToProto(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return v1::REDUCE_OP_SUM;
    case ReduceOp::kMean:
      return v1::REDUCE_OP_MEAN;
    case ReduceOp::kMin:
      return v1::REDUCE_OP_MIN;
    case ReduceOp::kMax:
      return v1::REDUCE_OP_MAX;
    case ReduceOp::kFirst:
      return v1::REDUCE_OP_FIRST;
    case ReduceOp::kGather:
      return v1::REDUCE_OP_GATHER;
    case ReduceOp::kBroadcast:
      return v1::REDUCE_OP_BROADCAST;
  }
  return v1::REDUCE_OP_UNSPECIFIED;
}

v1::ReduceRequest HeaderFrom(const ReduceOptions& options) {
  v1::ReduceRequest header;
  header.set_step(options.step);
  header.set_ordinal(options.ordinal);
  header.set_weight(options.weight);
  v1::Collective& collective = *header.mutable_collective();
  collective.set_name(options.name);
  collective.set_op(ToProto(options.op));
  collective.set_dtype(static_cast<v1::DType>(options.dtype));
  collective.mutable_shape()->Add(options.shape.begin(), options.shape.end());
  collective.set_replicas(options.replicas);
  collective.set_source(options.op == ReduceOp::kBroadcast ? options.source : 0);
  return header;
}

absl::Status CheckOptions(const ReduceOptions& options, const std::string& text) {
  const auto bad = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(text, ": ", what));
  };
  if (options.name.size() > kMaxCollectiveNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the name of a collective has ",
                                                   options.name.size(), " bytes; at most ",
                                                   kMaxCollectiveNameBytes));
  }
  const bool floating = options.dtype == DType::kFloat32 || options.dtype == DType::kFloat64;
  if (options.op == ReduceOp::kMean && !floating) {
    return bad("a mean of integers or truths is none; convert them, or take the sum");
  }
  if (options.replicas == 0) return bad("replicas is 0");
  if (!std::isfinite(options.weight) || options.weight < 0) {
    return bad(absl::StrCat("weight is ", options.weight, "; it must be finite and not negative"));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> ElementsOf(const ReduceOptions& options, const std::string& text) {
  uint64_t elements = 1;
  for (const uint64_t extent : options.shape) {
    if (extent != 0 && elements > kMaxCollectiveElements / extent) {
      return absl::InvalidArgumentError(absl::StrCat(text, ": its shape has too many elements"));
    }
    elements *= extent;
  }
  return elements;
}

bool HasSource(const v1::JobView& view, WorkerId worker, const ReduceOptions& options) {
  return std::any_of(view.members().begin(), view.members().end(), [&](const v1::Member& member) {
    return WorkerId{member.worker()} == worker &&
           member.rank() == options.source / options.replicas;
  });
}

// Copies bytes `offset` .. `offset + size` of the payload.
void CopyOut(const Payload& payload, uint64_t offset, uint64_t size, std::byte* to) {
  ForEachRun(payload, offset, size, 1, [&](const std::byte* data, size_t first, size_t count) {
    std::memcpy(to + first, data, count);
  });
}

}  // namespace

bool MayRepeatStep(const absl::Status& status) {
  return IsMemberLeft(status);
}

uint32_t ServerOfPiece(const v1::JobView& view, uint64_t piece) {
  return static_cast<uint32_t>((view.run_id() + piece) %
                               static_cast<uint64_t>(view.shard_map().servers_size()));
}

absl::StatusOr<std::unique_ptr<CollectiveTransfer>> CollectiveTransfer::Create(
    const Routes& routes, WorkerId worker, absl::Span<const std::byte> data,
    const ReduceOptions& options, std::vector<std::byte>& result) {
  std::unique_ptr<CollectiveTransfer> transfer(new CollectiveTransfer());
  transfer->header_ = HeaderFrom(options);
  const std::string text = TextOf(transfer->header_.collective());
  const v1::JobSpec& spec = routes.view().spec();
  const v1::Regime regime = spec.regime().kind();
  const bool stepped = regime == v1::REGIME_SYNC || regime == v1::REGIME_SYNC_GROUPS;
  if (!stepped && spec.workers() != 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        text,
        ": this job's workers have no steps in common; collectives over several processes "
        "are for `regime: sync` and sync groups"));
  }
  WEIR_RETURN_IF_ERROR(CheckOptions(options, text));
  WEIR_ASSIGN_OR_RETURN(transfer->elements_, ElementsOf(options, text));
  transfer->element_bytes_ = static_cast<uint32_t>(SizeOf(options.dtype));
  const bool gathers = options.op == ReduceOp::kGather;
  transfer->blocks_ = gathers ? options.replicas : 1;
  const uint64_t bytes = transfer->elements_ * transfer->element_bytes_ * transfer->blocks_;
  const bool listens =
      options.op == ReduceOp::kBroadcast && !HasSource(routes.view(), worker, options);
  if (data.size() != bytes && !(listens && data.empty())) {
    return absl::InvalidArgumentError(
        absl::StrCat(text, ": ", data.size(), " bytes were given; it takes ", bytes));
  }
  transfer->data_ = listens ? nullptr : data.data();
  // Equal on all members, so it rests on what they all know before they have agreed.
  const uint64_t answered =
      gathers ? std::max<uint64_t>(1, spec.workers()) * options.replicas : uint64_t{1};
  transfer->first_count_ =
      std::min(transfer->elements_,
               std::max<uint64_t>(1, kFirstPieceBytes / (answered * transfer->element_bytes_)));
  transfer->result_ = &result;
  return transfer;
}

void CollectiveTransfer::SetPlace(uint64_t sequence, uint64_t step_generation) {
  header_.set_sequence(sequence);
  header_.set_step_generation(step_generation);
}

Piece CollectiveTransfer::PieceAt(uint64_t index, uint64_t first, uint64_t count) const {
  Piece piece{.shard = index,
              .first_element = first,
              .elements = count,
              .chunk_elements = std::max<uint64_t>(1, count),
              .element_bytes = element_bytes_,
              .blocks = blocks_,
              .block_bytes = elements_ * element_bytes_};
  if (data_ != nullptr) piece.source = data_ + first * element_bytes_;
  return piece;
}

Piece CollectiveTransfer::FirstPiece() const {
  return PieceAt(0, 0, first_count_);
}

std::vector<Piece> CollectiveTransfer::LaterPieces() const {
  std::vector<Piece> pieces;
  for (uint64_t first = first_count_; first < elements_; first += piece_elements_) {
    pieces.push_back(
        PieceAt(1 + pieces.size(), first, std::min(piece_elements_, elements_ - first)));
  }
  return pieces;
}

uint64_t CollectiveTransfer::WireBytes(const Piece& piece) const {
  return std::max(blocks_, result_blocks_) * piece.elements * element_bytes_;
}

v1::ReduceRequest CollectiveTransfer::RequestOf(const Piece& piece) const {
  v1::ReduceRequest request = header_;
  request.set_piece(piece.shard);
  request.set_first_element(piece.first_element);
  request.set_count(piece.elements);
  request.set_pieces_done(pieces_done_);
  if (piece.shard > 0) request.set_step_generation(generation_);
  return request;
}

absl::Status CollectiveTransfer::Take(const Piece& piece, const ReduceResult& reply) {
  const bool gathers = header_.collective().op() == v1::REDUCE_OP_GATHER;
  const uint64_t blocks = gathers ? uint64_t{reply.header.members()} * blocks_ : 1;
  const uint64_t run_bytes = piece.elements * element_bytes_;
  if (reply.payload.size() != blocks * run_bytes || reply.header.members() == 0 ||
      (piece.shard > 0 && blocks != result_blocks_)) {
    return absl::InternalError(absl::StrCat(
        PlaceText(header_.step(), header_.ordinal()), ", piece ", piece.shard, ": ",
        reply.payload.size(), " bytes of ", reply.header.members(), " members were answered; ",
        run_bytes, " bytes of each replica were asked for"));
  }
  const uint64_t block_bytes = elements_ * element_bytes_;
  if (piece.shard == 0) result_->resize(blocks * block_bytes);
  for (uint64_t block = 0; block < blocks; ++block) {
    CopyOut(reply.payload, block * run_bytes, run_bytes,
            result_->data() + block * block_bytes + piece.first_element * element_bytes_);
  }
  return absl::OkStatus();
}

void CollectiveTransfer::Finish(const Piece& piece, const v1::ReduceReply& reply) {
  if (piece.shard == 0) {
    const bool gathers = header_.collective().op() == v1::REDUCE_OP_GATHER;
    result_blocks_ = gathers ? uint64_t{reply.members()} * blocks_ : 1;
    const uint64_t largest =
        std::max<uint64_t>(1, kMaxPayloadBytes / (result_blocks_ * element_bytes_));
    piece_elements_ = std::clamp<uint64_t>(reply.piece_elements(), 1, largest);
    generation_ = reply.generation();
    stats_ = {reply.members(), reply.weight()};
  }
  finished_.insert(piece.shard);
  while (finished_.erase(pieces_done_) > 0) ++pieces_done_;
}

}  // namespace weir
