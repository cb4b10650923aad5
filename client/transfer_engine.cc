// SPDX-License-Identifier: Apache-2.0
// Starting and ending of transfers.
#include "client/transfer_engine.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/item_check.h"
#include "common/status_macros.h"

namespace weir {
namespace {

// The pieces of one variable. `source` and `destination` are its first byte, or nullptr.
void AppendPieces(const Routes& routes, size_t variable, const void* source, void* destination,
                  std::vector<Piece>& pieces) {
  for (const Shard& shard : routes.layout().ShardsOf(static_cast<VariableId>(variable))) {
    const uint64_t offset = shard.first_element * shard.element_bytes;
    Piece piece{.shard = static_cast<uint64_t>(shard.id),
                .elements = shard.elements,
                .chunk_elements = shard.chunk_elements,
                .element_bytes = shard.element_bytes};
    if (source != nullptr) piece.source = static_cast<const std::byte*>(source) + offset;
    if (destination != nullptr) piece.destination = static_cast<std::byte*>(destination) + offset;
    pieces.push_back(piece);
  }
}

struct PushPieces {
  std::vector<Piece> push_pull;  // with an answer
  std::vector<Piece> push;
  std::vector<Piece> pull;  // of variables that are in no push of this group
};

PushPieces PiecesOf(const Routes& routes, absl::Span<const PushItem> items,
                    absl::Span<const PullItem> into, uint32_t group) {
  std::vector<const void*> sources(routes.num_variables());
  std::vector<void*> destinations(routes.num_variables());
  for (const PushItem& item : items) sources[item.variable] = item.data;
  for (const PullItem& item : into) destinations[item.variable] = item.data;
  PushPieces pieces;
  for (size_t v = 0; v < routes.num_variables(); ++v) {
    if (routes.variable(v).group() != group) {
      if (destinations[v] != nullptr)
        AppendPieces(routes, v, nullptr, destinations[v], pieces.pull);
    } else {
      AppendPieces(routes, v, sources[v], destinations[v],
                   destinations[v] != nullptr ? pieces.push_pull : pieces.push);
    }
  }
  return pieces;
}

// Who joins asks all servers how far each worker has come. Those that hold nothing of the group
// hear it by messages without segments; in `async` nobody asks.
std::vector<Piece> StepNotes(const Routes& routes, uint32_t group) {
  std::vector<Piece> notes;
  if (group == 0 || routes.view().spec().regime().kind() == v1::REGIME_ASYNC) return notes;
  absl::flat_hash_set<uint32_t> told;
  absl::flat_hash_map<uint32_t, uint64_t> any_shard;  // by server
  for (const Shard& shard : routes.layout().shards()) {
    const auto id = static_cast<uint64_t>(shard.id);
    const uint32_t server = routes.view().shard_map().server_of_shard(static_cast<int>(id));
    any_shard[server] = id;
    if (routes.variable(static_cast<size_t>(shard.variable)).group() == group) told.insert(server);
  }
  for (const auto& [server, shard] : any_shard) {
    if (!told.contains(server)) notes.push_back({.shard = shard});
  }
  return notes;
}

v1::PushRequest HeaderFrom(const PushOptions& options) {
  v1::PushRequest header;
  header.set_group(options.group);
  header.set_step(options.step);
  header.set_group_step(options.group_step);
  header.set_weight(options.weight);
  header.set_examples(options.examples);
  header.set_rate_scale(options.rate_scale);
  header.set_finished(options.finished);
  header.set_may_update_again(options.may_update_again);
  return header;
}

absl::Status CheckInitialiser(const v1::JobView& view, WorkerId worker) {
  if (view.state() == v1::JOB_STATE_INITIALISING && WorkerId{view.initialiser()} == worker) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      view.state() == v1::JOB_STATE_INITIALISING
          ? absl::StrCat("initial values are expected from worker ",
                         absl::Hex(view.initialiser(), absl::kZeroPad16))
          : absl::StrCat("initial values are not expected now: ", v1::JobState_Name(view.state())));
}

}  // namespace

std::shared_ptr<TransferEngine> TransferEngine::Create(Options options) {
  return std::shared_ptr<TransferEngine>(new TransferEngine(std::move(options)));
}

absl::Status TransferEngine::CheckUsable() const {
  if (closed_) return absl::CancelledError("the client is being closed");
  if (routes_ == nullptr) {
    return absl::FailedPreconditionError("no view of the job has come yet; wait until it is ready");
  }
  WEIR_RETURN_IF_ERROR(EndedBy(*routes_));
  if (!follows_attempts() && attempt_ == 0) {
    return absl::FailedPreconditionError(
        "the job's attempt is not adopted yet; call JobSession::WaitUntilReady first");
  }
  if (!routes_->placed()) {
    return absl::FailedPreconditionError(
        absl::StrCat("job '", routes_->view().name(),
                     "' has no variables on servers yet: ", routes_->view().message()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Routes>> TransferEngine::RoutesToUse() const {
  MutexLock lock(mutex_);
  WEIR_RETURN_IF_ERROR(CheckUsable());
  return routes_;
}

std::shared_ptr<Transfer> TransferEngine::NewTransfer(std::string what, absl::Duration timeout,
                                                      Done done) const {
  auto transfer = std::make_shared<Transfer>();
  transfer->what = std::move(what);
  transfer->started = transfer->sent = options_.clock->Now();
  transfer->deadline = transfer->started + timeout;
  transfer->done = std::move(done);
  return transfer;
}

void TransferEngine::Begin(const std::shared_ptr<Transfer>& transfer) {
  transfer->attempt = routes_->view().attempt();
  transfers_.insert(transfer);
  transfer->timer = options_.executor->RunAfter(transfer->deadline - transfer->started,
                                                [weak = weak_from_this(), transfer] {
                                                  if (auto self = weak.lock())
                                                    self->Expire(transfer);
                                                });
}

void TransferEngine::StartPull(absl::Span<const PullItem> into, const PullOptions& options,
                               Done done) {
  const auto routes = RoutesToUse();
  if (!routes.ok()) return std::move(done)(routes.status());
  if (absl::Status status = CheckPull(**routes, into); !status.ok()) return std::move(done)(status);
  std::vector<Piece> pieces;
  for (const PullItem& item : into) {
    AppendPieces(**routes, item.variable, nullptr, item.data, pieces);
  }
  auto transfer = NewTransfer(absl::StrCat("pull of ", into.size(), " variables"), options.timeout,
                              std::move(done));
  transfer->pull_step = options.step;
  Effects effects;
  {
    MutexLock lock(mutex_);
    if (absl::Status status = CheckUsable(); !status.ok()) {
      effects.finished.emplace_back(std::move(transfer->done), status);
    } else {
      Begin(transfer);
      Distribute(transfer, Call::kPull, pieces, effects);
      FinishIfDone(transfer, effects);
    }
  }
  Perform(std::move(effects));
}

absl::Status TransferEngine::BeginPush(Transfer& transfer, const PushOptions& options) {
  WEIR_RETURN_IF_ERROR(CheckUsable());
  WEIR_ASSIGN_OR_RETURN(
      const uint64_t sequence,
      ledger_.Begin({options.group, options.step, options.consumed, options.group_step}));
  transfer.pushes = true;
  transfer.push = HeaderFrom(options);
  transfer.push.set_sequence(sequence);
  return absl::OkStatus();
}

void TransferEngine::StartPush(absl::Span<const PushItem> items, absl::Span<const PullItem> into,
                               const PushOptions& options, Done done) {
  const auto routes = RoutesToUse();
  if (!routes.ok()) return std::move(done)(routes.status());
  absl::Status status = CheckPull(**routes, into);
  if (status.ok()) status = CheckPush(**routes, options_.worker, items, options);
  if (!status.ok()) return std::move(done)(status);
  PushPieces pieces = PiecesOf(**routes, items, into, options.group);
  const std::vector<Piece> notes = StepNotes(**routes, options.group);
  auto transfer =
      NewTransfer(absl::StrCat("push of group ", options.group, ", step ", options.step),
                  options.timeout, std::move(done));
  Effects effects;
  {
    MutexLock lock(mutex_);
    if (status = BeginPush(*transfer, options); !status.ok()) {
      effects.finished.emplace_back(std::move(transfer->done), status);
    } else {
      transfer->afterwards = std::move(pieces.pull);
      Begin(transfer);
      Distribute(transfer, Call::kPushPull, pieces.push_pull, effects);
      Distribute(transfer, Call::kPush, pieces.push, effects);
      Distribute(transfer, Call::kPush, notes, effects);
      FinishIfDone(transfer, effects);
    }
  }
  Perform(std::move(effects));
}

void TransferEngine::StartAssign(absl::Span<const PushItem> values, absl::Duration timeout,
                                 Done done) {
  const auto routes = RoutesToUse();
  if (!routes.ok()) return std::move(done)(routes.status());
  absl::Status status = CheckInitialiser((*routes)->view(), options_.worker);
  if (status.ok()) status = CheckAssign(**routes, values);
  if (!status.ok()) return std::move(done)(status);
  std::vector<Piece> pieces;
  for (const PushItem& item : values) {
    AppendPieces(**routes, item.variable, item.data, nullptr, pieces);
  }
  auto transfer = NewTransfer("assignment of initial values", timeout, std::move(done));
  Effects effects;
  {
    MutexLock lock(mutex_);
    if (status = CheckUsable(); !status.ok()) {
      effects.finished.emplace_back(std::move(transfer->done), status);
    } else {
      Begin(transfer);
      Distribute(transfer, Call::kAssign, pieces, effects);
      FinishIfDone(transfer, effects);
    }
  }
  Perform(std::move(effects));
}

void TransferEngine::Perform(Effects effects) {
  for (const std::shared_ptr<Lane>& lane : effects.to_pump) Pump(lane);
  if (effects.cut.has_value() && options_.report_cut) options_.report_cut(*effects.cut);
  for (const std::string& warning : effects.warnings) {
    if (options_.warn) options_.warn(warning);
  }
  for (auto& [done, result] : effects.finished) std::move(done)(std::move(result));
}

void TransferEngine::Expire(const std::shared_ptr<Transfer>& transfer) {
  Effects effects;
  {
    MutexLock lock(mutex_);
    if (!transfers_.contains(transfer)) return;
    transfer->expired = transfer->expired || transfer->status.ok();
    Fail(transfer, absl::DeadlineExceededError(transfer->what), effects);
  }
  Perform(std::move(effects));
}

void TransferEngine::Fail(const std::shared_ptr<Transfer>& transfer, const absl::Status& status,
                          Effects& effects) {
  if (!transfer->status.ok()) return;
  transfer->waited_for = ServersWaitedFor(*transfer);
  transfer->status = status;
  transfer->afterwards.clear();
  DropUnsent(*transfer);
  for (const auto& [key, lane] : lanes_) {
    if (lane->has_work()) effects.to_pump.push_back(lane);  // credit may have come free
  }
  FinishIfDone(transfer, effects);
}

void TransferEngine::FailAll(const absl::Status& status, Effects& effects) {
  const std::vector<std::shared_ptr<Transfer>> all(transfers_.begin(), transfers_.end());
  for (const std::shared_ptr<Transfer>& transfer : all) Fail(transfer, status, effects);
}

void TransferEngine::DropUnsent(const Transfer& transfer) {
  for (const auto& [key, lane] : lanes_) {
    for (auto batch = lane->fresh.begin(); batch != lane->fresh.end();) {
      if (batch->transfer.get() != &transfer) {
        ++batch;
        continue;
      }
      --batch->transfer->open;
      batch = lane->fresh.erase(batch);
    }
    lane->again.erase(std::remove_if(lane->again.begin(), lane->again.end(),
                                     [&](const WireMessage* message) {
                                       return message->transfer.get() == &transfer;
                                     }),
                      lane->again.end());
  }
  for (auto entry = messages_.begin(); entry != messages_.end();) {
    WireMessage& message = *entry->second;
    if (message.transfer.get() != &transfer || message.state == MessageState::kInFlight) {
      ++entry;
      continue;
    }
    if (message.state != MessageState::kQueued) message.lane->in_flight_bytes -= message.bytes;
    if (message.timer != TimerId::kNone) options_.executor->Cancel(message.timer);
    --message.transfer->open;
    messages_.erase(entry++);
  }
}

void TransferEngine::FinishIfDone(const std::shared_ptr<Transfer>& transfer, Effects& effects) {
  if (transfer->open > 0 || transfer->holds > 0 || !transfers_.contains(transfer)) return;
  if (!transfer->afterwards.empty()) {
    const std::vector<Piece> pieces = std::exchange(transfer->afterwards, {});
    Distribute(transfer, Call::kPull, pieces, effects);
    return;
  }
  transfers_.erase(transfer);
  options_.executor->Cancel(transfer->timer);
  if (transfer->expired) {
    transfer->status = absl::DeadlineExceededError(absl::StrCat(
        transfer->what, " was not done within ",
        absl::FormatDuration(transfer->deadline - transfer->started), "; waited for ",
        transfer->waited_for,
        transfer->last_problem.empty() ? ""
                                       : absl::StrCat("; last answer: ", transfer->last_problem)));
  }
  if (transfer->pushes && transfer->attempt == attempt_) {
    ledger_.End(transfer->push.group(), transfer->push.sequence(), transfer->status);
  }
  if (transfer->status.ok()) {
    MeasureTimes(*transfer);
    effects.finished.emplace_back(std::move(transfer->done), transfer->result);
  } else {
    effects.finished.emplace_back(std::move(transfer->done), transfer->status);
  }
  if (transfers_.empty()) idle_.NotifyAll();
}

void TransferEngine::MeasureTimes(Transfer& transfer) const {
  const absl::Time ended = options_.clock->Now();
  const absl::Time answered = std::min(transfer.answered, ended);
  const absl::Time sent = std::min(transfer.sent, answered);
  transfer.result.sending = sent - transfer.started;
  transfer.result.waiting = answered - sent;
  transfer.result.receiving = ended - answered;
}

void TransferEngine::NoteSent(Transfer& transfer) const {
  if (transfer.answered == absl::InfiniteFuture()) transfer.sent = options_.clock->Now();
}

void TransferEngine::NoteAnswer(Transfer& transfer) const {
  transfer.answered = std::min(transfer.answered, options_.clock->Now());
}

std::string TransferEngine::ServersWaitedFor(const Transfer& transfer) const {
  std::set<std::string> servers;
  const auto add = [&](const Lane& lane) {
    servers.insert(absl::StrCat("server ", lane.server.name(), " (", lane.server.address(), ")"));
  };
  for (const auto& [id, message] : messages_) {
    if (message->transfer.get() == &transfer) add(*message->lane);
  }
  for (const auto& [key, lane] : lanes_) {
    for (const Batch& batch : lane->fresh) {
      if (batch.transfer.get() == &transfer) add(*lane);
    }
  }
  return absl::StrJoin(servers, ", ");
}

void TransferEngine::Shutdown() {
  Effects effects;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    FailAll(absl::CancelledError("the client is being closed"), effects);
  }
  Perform(std::move(effects));
  // A thread that sends may do so inside an endpoint's callback, where the endpoint must not be
  // destroyed: so none may hold one any more when we let go.
  std::vector<std::shared_ptr<ParameterEndpoint>> endpoints;
  {
    MutexLock lock(mutex_);
    while (Pumping()) idle_.Wait(mutex_);
    for (const auto& [key, lane] : lanes_) endpoints.push_back(std::move(lane->endpoint));
  }
  endpoints.clear();  // cancels what is in flight
  MutexLock lock(mutex_);
  while (!transfers_.empty()) idle_.Wait(mutex_);
}

bool TransferEngine::Pumping() const {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [](const auto& entry) { return entry.second->pumping; });
}

}  // namespace weir
