// SPDX-License-Identifier: Apache-2.0
// What becomes of a message when its answer is there.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/retry_policy.h"
#include "client/scatter.h"
#include "client/transfer_engine.h"
#include "rpc/errors.h"

namespace weir {
namespace {

std::string NameOf(const Lane& lane) {
  return absl::StrCat("server ", lane.server.name(), " (", lane.server.address(), ")");
}

// What the caller gets for a server's answer that ends his call.
absl::Status FinalStatus(const absl::Status& answer, absl::string_view named) {
  if (absl::IsAborted(answer)) return answer;  // a named error: its tag stays at the front
  if (absl::IsNotFound(answer)) return absl::FailedPreconditionError(named);  // the run is no more
  return absl::Status(answer.code(), named);
}

}  // namespace

void TransferEngine::TakePull(WireMessage* message, absl::StatusOr<PullResult> answer) {
  // Outside the lock: the bytes go straight to the caller's memory, which stays his until the end.
  absl::Status status = answer.status();
  if (answer.ok()) {
    status = Scatter(*answer, message->pieces, /*may_be_absent=*/message->call == Call::kPushPull);
  }
  Effects effects;
  {
    MutexLock lock(mutex_);
    --message->lane->calls;
    if (status.ok()) {
      NoteSuccess(*message->lane, effects);
      NoteAnswer(*message->transfer);
      TakeReply(*message, *answer);
      Settle(message, effects);
    } else {
      TakeFailure(message, status, effects);
    }
  }
  Perform(std::move(effects));
}

void TransferEngine::TakeReply(WireMessage& message, const PullResult& reply) {
  Transfer& transfer = *message.transfer;
  transfer.result.examples = std::max(transfer.result.examples, reply.header.examples());
  transfer.result.slowest_step =
      std::max(transfer.result.slowest_step, reply.header.slowest_step());
  transfer.result.bytes += reply.payload.size();
  std::vector<uint64_t>& group_steps = transfer.result.group_steps;
  for (int g = 0; g < reply.header.group_steps_size(); ++g) {
    const auto index = static_cast<size_t>(g);
    if (group_steps.size() <= index) group_steps.resize(index + 1);
    group_steps[index] = std::max(group_steps[index], reply.header.group_steps(g));
  }
  for (size_t i = 0; i < message.pieces.size(); ++i) {
    const v1::Segment& segment = reply.header.segments(static_cast<int>(i));
    const absl::Span<uint64_t> versions = VersionsOf(*message.routes, message.pieces[i]);
    std::fill(versions.begin(), versions.end(), segment.version());
    if (segment.absent() && transfer.status.ok()) {
      // No newer than what was pulled last, but that may have gone elsewhere.
      Piece again = message.pieces[i];
      again.source = nullptr;
      transfer.afterwards.push_back(again);
    }
  }
  if (message.call != Call::kPushPull) return;
  CountPush(message, reply.header.outcome());
}

void TransferEngine::CountPush(WireMessage& message, const v1::PushOutcome& outcome) {
  if (message.pieces.front().elements == 0) return;
  TransferResult& result = message.transfer->result;
  ++result.push_messages;
  if (outcome.repeated()) ++result.repeated_messages;
  result.staleness = std::max(result.staleness, outcome.staleness());
  result.late = result.late || outcome.late();
  result.next_step = std::max(result.next_step, outcome.next_step());
  result.next_group_step = std::max(result.next_group_step, outcome.next_group_step());
  result.bytes += SourceBytes(message.pieces);
}

void TransferEngine::TakePush(WireMessage* message, const absl::Status& status,
                              const v1::PushOutcome& outcome) {
  Effects effects;
  {
    MutexLock lock(mutex_);
    --message->lane->calls;
    if (!status.ok()) {
      TakeFailure(message, status, effects);
    } else {
      NoteSuccess(*message->lane, effects);
      NoteAnswer(*message->transfer);
      CountPush(*message, outcome);
      if (message->call == Call::kPush && !outcome.repeated()) CountOwnUpdate(*message);
      Settle(message, effects);
    }
  }
  Perform(std::move(effects));
}

void TransferEngine::CountOwnUpdate(const WireMessage& message) {
  for (const Piece& piece : message.pieces) {
    if (piece.source == nullptr) continue;
    for (uint64_t& version : VersionsOf(*message.routes, piece)) {
      if (version > 0) ++version;
    }
  }
}

void TransferEngine::TakeFailure(WireMessage* message, const absl::Status& status,
                                 Effects& effects) {
  const std::shared_ptr<Transfer> transfer = message->transfer;
  transfer->last_problem = absl::StrCat(NameOf(*message->lane), ": ", status.message());
  if (!transfer->status.ok()) return Settle(message, effects);
  const absl::Time now = options_.clock->Now();
  if (now >= transfer->deadline) {
    transfer->expired = true;
    Fail(transfer, absl::DeadlineExceededError(transfer->what), effects);
    return Settle(message, effects);
  }
  const Verdict verdict = Judge(status, follows_attempts());
  // A message whose time was up may have been parked at the server, in a step that waits.
  const bool parked = absl::IsDeadlineExceeded(status);
  if (verdict != Verdict::kFail && !parked) {
    NoteFailure(*message->lane, status, transfer->deadline, effects);
  }
  switch (verdict) {
    case Verdict::kAwaitView:
      if (routes_->placed() && routes_->view().version() > message->routes->view().version()) {
        Requeue(message, effects);
      } else {
        WaitToResend(message, MessageState::kAwaitingView, options_.view_poll);
      }
      return;
    case Verdict::kBackOff:
      if (message->backoff == nullptr) {
        message->backoff =
            std::make_unique<Backoff>(*options_.clock, ServerBackoff(options_.seed + message->id));
      }
      WaitToResend(message, MessageState::kBackingOff, message->backoff->Next());
      return;
    default:
      if (absl::IsAborted(status) && !IsMemberLeft(status))
        over_ = std::max(over_, transfer->attempt);
      Fail(transfer, FinalStatus(status, transfer->last_problem), effects);
      Settle(message, effects);
  }
}

void TransferEngine::NoteFailure(const Lane& lane, const absl::Status& why, absl::Time until,
                                 Effects& effects) {
  std::string warning = outages_.Fail(NameOf(lane), why.message(), options_.clock->Now(), until);
  if (!warning.empty()) effects.warnings.push_back(std::move(warning));
}

void TransferEngine::NoteSuccess(const Lane& lane, Effects& effects) {
  if (outages_.empty()) return;
  std::string news = outages_.Succeed(NameOf(lane), options_.clock->Now());
  if (!news.empty()) effects.warnings.push_back(std::move(news));
}

void TransferEngine::WaitToResend(WireMessage* message, MessageState state, absl::Duration delay) {
  message->state = state;
  message->timer = options_.executor->RunAfter(delay, [weak = weak_from_this(), id = message->id] {
    if (auto self = weak.lock()) self->Resend(id);
  });
}

void TransferEngine::Resend(uint64_t id) {
  Effects effects;
  {
    MutexLock lock(mutex_);
    const auto found = messages_.find(id);
    if (found == messages_.end()) return;
    WireMessage* message = found->second.get();
    if (message->state != MessageState::kBackingOff &&
        message->state != MessageState::kAwaitingView) {
      return;  // a view was faster
    }
    if (!routes_->placed()) return WaitToResend(message, message->state, options_.view_poll);
    Requeue(message, effects);
  }
  Perform(std::move(effects));
}

void TransferEngine::Requeue(WireMessage* message, Effects& effects) {
  if (message->state != MessageState::kQueued) {
    message->lane->in_flight_bytes -= message->bytes;
    effects.to_pump.push_back(message->lane);
  }
  message->timer = TimerId::kNone;
  message->state = MessageState::kQueued;
  const v1::ServerInfo& server = ServerOf(message->call, message->pieces.front());
  bool together = true;
  for (const Piece& piece : message->pieces) {
    together = together && &ServerOf(message->call, piece) == &server;
  }
  if (together) {
    message->lane = LaneOf(server);
    message->lane->again.push_back(message);
    effects.to_pump.push_back(message->lane);
    return;
  }
  Distribute(message->transfer, message->call, message->pieces, effects);
  --message->transfer->open;
  messages_.erase(message->id);
}

void TransferEngine::Settle(WireMessage* message, Effects& effects) {
  const std::shared_ptr<Transfer> transfer = message->transfer;
  message->lane->in_flight_bytes -= message->bytes;
  effects.to_pump.push_back(message->lane);
  messages_.erase(message->id);
  --transfer->open;
  FinishIfDone(transfer, effects);
}

void TransferEngine::TakeRelease(const std::shared_ptr<Transfer>& transfer) {
  Effects effects;
  {
    MutexLock lock(mutex_);
    --transfer->holds;
    NoteSent(*transfer);
    FinishIfDone(transfer, effects);
  }
  Perform(std::move(effects));
}

}  // namespace weir
