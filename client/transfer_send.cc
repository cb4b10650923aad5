// SPDX-License-Identifier: Apache-2.0
// Sending: greetings, credit, headers and payloads.
#include <algorithm>
#include <atomic>

#include "absl/strings/str_cat.h"
#include "client/retry_policy.h"
#include "client/transfer_engine.h"
#include "rpc/errors.h"
#include "rpc/protocol.h"

namespace weir {
namespace {

// Shorter runs are copied together rather than sent as slices of their own.
constexpr uint64_t kSmallBytes = 4096;

}  // namespace

// Owns what a message's payload points to, until the transport has let go of every slice of it.
struct TransferEngine::PayloadHold {
  std::shared_ptr<TransferEngine> engine;
  std::shared_ptr<Transfer> transfer;
  std::vector<std::byte> small;  // the short runs of the message
  std::atomic<size_t> slices = 0;

  static void Release(void* owner) {
    auto* hold = static_cast<PayloadHold*>(owner);
    if (hold->slices.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    const std::unique_ptr<PayloadHold> last(hold);
    last->engine->TakeRelease(last->transfer);
  }
};

void TransferEngine::Pump(const std::shared_ptr<Lane>& lane) {
  bool mine = false;
  while (true) {
    WireMessage* message = nullptr;
    bool greet = false;
    {
      MutexLock lock(mutex_);
      if (lane->pumping && !mine)
        return;  // whoever does sees the work: it looks again under the lock
      greet = lane->state == Lane::State::kNew && lane->has_work() && !closed_;
      if (greet) {
        lane->state = Lane::State::kGreeting;
        ++lane->calls;
      } else {
        message = NextMessage(lane);
      }
      mine = lane->pumping = greet || message != nullptr;
      if (closed_ && !mine) idle_.NotifyAll();
    }
    if (!mine) return;
    if (greet) {
      Greet(lane);
    } else {
      Send(message);
    }
  }
}

void TransferEngine::Greet(const std::shared_ptr<Lane>& lane) {
  std::shared_ptr<ParameterEndpoint> endpoint;
  {
    MutexLock lock(mutex_);
    endpoint = lane->endpoint;
  }
  if (endpoint == nullptr) {
    auto connected = options_.connect(lane->server);
    if (!connected.ok()) return TakeGreeting(lane, connected.status());
    endpoint = *std::move(connected);
    MutexLock lock(mutex_);
    if (!closed_) lane->endpoint = endpoint;
  }
  v1::HelloRequest request;
  request.set_protocol_min(kProtocol);
  request.set_protocol_max(kProtocol);
  request.set_build(kBuild);
  request.set_worker(static_cast<uint64_t>(options_.worker));
  endpoint->Hello(request, options_.clock->Now() + options_.rpc_timeout,
                  [self = shared_from_this(), lane](absl::StatusOr<v1::HelloReply> reply) {
                    self->TakeGreeting(lane, reply);
                  });
}

void TransferEngine::TakeGreeting(const std::shared_ptr<Lane>& lane,
                                  const absl::StatusOr<v1::HelloReply>& reply) {
  Effects effects;
  {
    MutexLock lock(mutex_);
    --lane->calls;
    if (!reply.ok()) {
      Rest(lane, reply.status(), effects);
    } else if (reply->server_incarnation() != lane->server.incarnation()) {
      Rest(lane, StaleIncarnation(lane->server.name()), effects);
    } else {
      lane->state = Lane::State::kOpen;
      lane->backoff = nullptr;
      lane->credit_bytes = reply->credit_bytes();
      lane->payload_bytes = std::clamp<uint64_t>(reply->payload_bytes(), 1, kMaxPayloadBytes);
      effects.to_pump.push_back(lane);
    }
  }
  Perform(std::move(effects));
}

void TransferEngine::Rest(const std::shared_ptr<Lane>& lane, const absl::Status& why,
                          Effects& effects) {
  lane->state = Lane::State::kResting;
  absl::flat_hash_set<std::shared_ptr<Transfer>> waiting;
  for (const Batch& batch : lane->fresh) waiting.insert(batch.transfer);
  for (const WireMessage* message : lane->again) waiting.insert(message->transfer);
  const bool fails = Judge(why, follows_attempts()) == Verdict::kFail;
  absl::Time until = absl::InfinitePast();
  for (const std::shared_ptr<Transfer>& transfer : waiting) {
    until = std::max(until, transfer->deadline);
    transfer->last_problem = absl::StrCat("server ", lane->server.name(), " (",
                                          lane->server.address(), "): ", why.message());
    if (fails) Fail(transfer, absl::Status(why.code(), transfer->last_problem), effects);
  }
  if (!fails && !waiting.empty()) NoteFailure(*lane, why, until, effects);
  if (lane->backoff == nullptr) {
    lane->backoff = std::make_unique<Backoff>(
        *options_.clock, ServerBackoff(options_.seed ^ lane->server.incarnation()));
  }
  options_.executor->RunAfter(lane->backoff->Next(), [weak = weak_from_this(), lane] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    {
      MutexLock lock(self->mutex_);
      lane->state = Lane::State::kNew;
    }
    self->Pump(lane);
  });
}

WireMessage* TransferEngine::NextMessage(const std::shared_ptr<Lane>& lane) {
  if (lane->state != Lane::State::kOpen || !routes_->placed()) return nullptr;
  const bool idle = lane->in_flight_bytes == 0;
  WireMessage* message = nullptr;
  if (!lane->again.empty()) {
    message = lane->again.front();
    if (!idle && lane->in_flight_bytes + message->bytes > lane->credit_bytes) return nullptr;
    lane->again.pop_front();
  } else if (!lane->fresh.empty()) {
    if (!idle && lane->in_flight_bytes + lane->payload_bytes > lane->credit_bytes) return nullptr;
    message = Cut(lane);
  } else {
    return nullptr;
  }
  message->state = MessageState::kInFlight;
  message->routes = routes_;
  lane->in_flight_bytes += message->bytes;
  ++lane->calls;
  return message;
}

WireMessage* TransferEngine::Cut(const std::shared_ptr<Lane>& lane) {
  Batch& batch = lane->fresh.front();
  auto message = std::make_unique<WireMessage>();
  message->id = ++last_message_;
  message->transfer = batch.transfer;
  message->call = batch.call;
  if (batch.call == Call::kReduce) {  // one a message, as it was cut
    message->pieces = {batch.pieces.front()};
    batch.pieces.pop_front();
  } else {
    message->pieces = TakeMessage(
        batch.pieces, std::min(lane->payload_bytes, std::max<uint64_t>(lane->credit_bytes, 1)));
  }
  message->bytes = batch.call == Call::kReduce
                       ? message->transfer->collective->WireBytes(message->pieces.front())
                       : WireBytes(message->pieces);
  message->lane = lane;
  if (batch.pieces.empty()) {
    lane->fresh.pop_front();  // the message takes its place in `open`
  } else {
    ++message->transfer->open;
  }
  return (messages_[message->id] = std::move(message)).get();
}

v1::RequestContext TransferEngine::ContextOf(const WireMessage& message) const {
  const v1::JobView& view = message.routes->view();
  v1::RequestContext context;
  context.set_run_id(view.run_id());
  context.set_attempt(view.attempt());
  context.set_generation(view.generation());
  context.set_shard_map_version(view.shard_map().version());
  context.set_worker(static_cast<uint64_t>(options_.worker));
  context.set_server_incarnation(message.lane->server.incarnation());
  return context;
}

TransferEngine::Header TransferEngine::HeaderOf(const WireMessage& message) {
  switch (message.call) {
    case Call::kPull: {
      v1::PullRequest request;
      request.set_step(message.transfer->pull_step);
      return WithSegments(message, std::move(request));
    }
    case Call::kReduce: {
      v1::ReduceRequest request = message.transfer->collective->RequestOf(message.pieces.front());
      *request.mutable_context() = ContextOf(message);
      return request;
    }
    case Call::kAssign:
      return WithSegments(message, v1::AssignRequest());
    case Call::kPush:
    case Call::kPushPull:
      break;
  }
  return PushHeaderOf(message);
}

template <typename Request>
Request TransferEngine::WithSegments(const WireMessage& message, Request request) {
  *request.mutable_context() = ContextOf(message);
  const bool pushes = message.call == Call::kPush || message.call == Call::kPushPull;
  for (const Piece& piece : message.pieces) {
    if (piece.elements == 0) continue;
    v1::Segment& segment = *request.add_segments();
    segment.set_shard(piece.shard);
    segment.set_first_element(piece.first_element);
    segment.set_count(piece.elements);
    if (pushes) {
      const absl::Span<uint64_t> versions = VersionsOf(*message.routes, piece);
      if (!versions.empty()) {
        segment.set_have_version(*std::min_element(versions.begin(), versions.end()));
      }
      segment.set_absent(piece.source == nullptr);
    }
  }
  return request;
}

v1::PushRequest TransferEngine::PushHeaderOf(const WireMessage& message) {
  v1::PushRequest request = WithSegments(message, message.transfer->push);
  if (message.transfer->attempt == attempt_ && ledger_.cut() != 0) {
    request.set_cut(ledger_.cut());
    request.set_cut_sequence(ledger_.cut_sequence(request.group()));
  }
  return request;
}

absl::Span<uint64_t> TransferEngine::VersionsOf(const Routes& routes, const Piece& piece) {
  if (routes.view().attempt() != routes_->view().attempt() ||
      routes.num_chunks() != have_versions_.size()) {
    return {};
  }
  const uint64_t first =
      routes.first_chunk(piece.shard) + piece.first_element / piece.chunk_elements;
  const uint64_t count = (piece.elements + piece.chunk_elements - 1) / piece.chunk_elements;
  return absl::MakeSpan(have_versions_).subspan(first, count);
}

Payload TransferEngine::PayloadOf(const WireMessage& message) {
  auto hold = std::make_unique<PayloadHold>();
  hold->engine = shared_from_this();
  hold->transfer = message.transfer;
  uint64_t small_bytes = 0;
  for (const Piece& piece : message.pieces) {
    if (piece.source != nullptr && piece.data_bytes() < kSmallBytes)
      small_bytes += piece.data_bytes();
  }
  hold->small.reserve(small_bytes);  // never moves: slices point into it
  std::vector<Payload::Slice> slices;
  const auto append = [&](const std::byte* data, uint64_t bytes, bool copy) {
    if (bytes == 0) return;
    if (copy) {
      hold->small.insert(hold->small.end(), data, data + bytes);
      data = hold->small.data() + hold->small.size() - bytes;
    }
    if (!slices.empty() && slices.back().data + slices.back().size == data) {
      slices.back().size += bytes;
    } else {
      slices.push_back({data, bytes});
    }
  };
  for (const Piece& piece : message.pieces) {
    if (piece.source == nullptr) continue;
    for (uint64_t block = 0; block < piece.blocks; ++block) {
      append(piece.source + block * piece.block_bytes, piece.data_bytes() / piece.blocks,
             piece.data_bytes() < kSmallBytes);
    }
  }
  Payload payload;
  if (slices.empty()) return payload;
  hold->slices = slices.size();
  PayloadHold* const owner =
      hold.release();  // each slice's release counts down; the last one deletes
  for (const Payload::Slice& slice : slices) {
    payload.Append(slice.data, slice.size, owner, &PayloadHold::Release);
  }
  return payload;
}

void TransferEngine::Send(WireMessage* message) {
  std::shared_ptr<ParameterEndpoint> endpoint;
  Header header;
  {
    MutexLock lock(mutex_);
    endpoint = message->lane->endpoint;
    NoteSent(*message->transfer);
    header = HeaderOf(*message);
    if (message->call != Call::kPull && endpoint != nullptr) ++message->transfer->holds;
  }
  if (endpoint == nullptr) return TakePush(message, absl::CancelledError("closing"), {});
  const absl::Time deadline =
      std::min(message->transfer->deadline, options_.clock->Now() + options_.rpc_timeout);
  const auto take_pull = [self = shared_from_this(), message](absl::StatusOr<PullResult> answer) {
    self->TakePull(message, std::move(answer));
  };
  if (const auto* pull = std::get_if<v1::PullRequest>(&header)) {
    return endpoint->Pull(*pull, deadline, take_pull);
  }
  // The message may be gone as soon as it is sent.
  const std::shared_ptr<Transfer> transfer = message->transfer;
  Payload payload = PayloadOf(*message);
  const bool held = payload.size() > 0;
  if (const auto* reduce = std::get_if<v1::ReduceRequest>(&header)) {
    endpoint->Reduce(*reduce, std::move(payload), deadline,
                     [self = shared_from_this(), message](absl::StatusOr<ReduceResult> answer) {
                       self->TakeReduce(message, std::move(answer));
                     });
  } else if (const auto* assign = std::get_if<v1::AssignRequest>(&header)) {
    endpoint->Assign(*assign, std::move(payload), deadline,
                     [self = shared_from_this(), message](absl::StatusOr<v1::AssignReply> answer) {
                       self->TakePush(message, answer.status(), v1::PushOutcome());
                     });
  } else if (message->call == Call::kPushPull) {
    endpoint->PushPull(std::get<v1::PushRequest>(header), std::move(payload), deadline, take_pull);
  } else {
    endpoint->Push(std::get<v1::PushRequest>(header), std::move(payload), deadline,
                   [self = shared_from_this(), message](absl::StatusOr<v1::PushReply> answer) {
                     self->TakePush(message, answer.status(),
                                    answer.ok() ? answer->outcome() : v1::PushOutcome());
                   });
  }
  if (!held) TakeRelease(transfer);
}

}  // namespace weir
