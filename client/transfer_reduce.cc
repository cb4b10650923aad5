// SPDX-License-Identifier: Apache-2.0
// Collectives: piece 0, and when all agree, the others.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/scatter.h"
#include "client/transfer_engine.h"
#include "common/status_macros.h"
#include "rpc/collective_text.h"

namespace weir {

void TransferEngine::StartReduce(absl::Span<const std::byte> data, const ReduceOptions& options,
                                 std::vector<std::byte>& result, Done done) {
  const auto routes = RoutesToUse();
  if (!routes.ok()) return std::move(done)(routes.status());
  auto collective = CollectiveTransfer::Create(**routes, options_.worker, data, options, result);
  if (!collective.ok()) return std::move(done)(collective.status());
  auto transfer = NewTransfer(absl::StrCat(PlaceText(options.step, options.ordinal), ", ",
                                           TextOf((*collective)->header().collective())),
                              options.timeout, std::move(done));
  transfer->collective = *std::move(collective);
  Effects effects;
  {
    MutexLock lock(mutex_);
    if (absl::Status status = BeginReduce(*transfer); !status.ok()) {
      effects.finished.emplace_back(std::move(transfer->done), status);
    } else {
      Begin(transfer);
      Distribute(transfer, Call::kReduce, {transfer->collective->FirstPiece()}, effects);
    }
  }
  Perform(std::move(effects));
}

absl::Status TransferEngine::BeginReduce(Transfer& transfer) {
  WEIR_RETURN_IF_ERROR(CheckUsable());
  if (follows_attempts()) {
    return absl::FailedPreconditionError(
        absl::StrCat(transfer.what, ": a reader takes part in no collective"));
  }
  for (const std::shared_ptr<Transfer>& other : transfers_) {
    if (other->collective == nullptr) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        transfer.what, " was called while ", other->what, " is under way; call one at a time"));
  }
  CollectiveTransfer& collective = *transfer.collective;
  const uint64_t step = collective.header().step();
  if (!collective.opens_step() && (step_generation_ == 0 || open_step_ != step)) {
    return absl::FailedPreconditionError(
        absl::StrCat(transfer.what, " was called before collective 0 of the step"));
  }
  collective.SetPlace(++last_collective_, collective.opens_step() ? 0 : step_generation_);
  if (collective.opens_step()) step_generation_ = 0;
  return absl::OkStatus();
}

void TransferEngine::TakeReduce(WireMessage* message, absl::StatusOr<ReduceResult> answer) {
  CollectiveTransfer& collective = *message->transfer->collective;
  const Piece& piece = message->pieces.front();
  // Outside the lock: no other message writes this part of the result.
  absl::Status status = answer.status();
  if (answer.ok()) status = collective.Take(piece, *answer);
  Effects effects;
  {
    MutexLock lock(mutex_);
    --message->lane->calls;
    if (status.ok()) {
      NoteSuccess(*message->lane, effects);
      TakeAgreement(*message, *answer, effects);
      Settle(message, effects);
    } else {
      TakeFailure(message, status, effects);
    }
  }
  Perform(std::move(effects));
}

void TransferEngine::TakeAgreement(const WireMessage& message, const ReduceResult& answer,
                                   Effects& effects) {
  const std::shared_ptr<Transfer>& transfer = message.transfer;
  CollectiveTransfer& collective = *transfer->collective;
  const Piece& piece = message.pieces.front();
  collective.Finish(piece, answer.header);
  transfer->result.bytes += SourceBytes(message.pieces) + answer.payload.size();
  if (piece.shard > 0) return;
  transfer->result.reduced = collective.stats();
  if (collective.opens_step() && transfer->attempt == attempt_) {
    open_step_ = collective.header().step();
    step_generation_ = collective.generation();
  }
  if (!transfer->status.ok()) return;
  const std::vector<Piece> pieces = collective.LaterPieces();
  Distribute(transfer, Call::kReduce, pieces, effects);
}

}  // namespace weir
