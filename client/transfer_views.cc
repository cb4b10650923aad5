// SPDX-License-Identifier: Apache-2.0
// How transfers follow the job's views.
#include <algorithm>

#include "client/job_info.h"
#include "client/transfer_engine.h"
#include "common/status_macros.h"
#include "rpc/errors.h"

namespace weir {

absl::Status TransferEngine::OnView(std::shared_ptr<const v1::JobView> view) {
  WEIR_ASSIGN_OR_RETURN(std::shared_ptr<const Routes> routes, Routes::Create(std::move(view)));
  Effects effects;
  {
    MutexLock lock(mutex_);
    if (routes_ != nullptr && routes->view().version() <= routes_->view().version()) {
      return absl::OkStatus();
    }
    TakeView(std::move(routes), effects);
  }
  const std::vector<std::shared_ptr<ParameterEndpoint>> closed = std::move(effects.to_close);
  Perform(std::move(effects));
  return absl::OkStatus();
}

void TransferEngine::TakeView(std::shared_ptr<const Routes> routes, Effects& effects) {
  const bool same_chunks = routes_ != nullptr &&
                           routes_->view().attempt() == routes->view().attempt() &&
                           routes_->num_chunks() == routes->num_chunks();
  const uint64_t former_map = routes_ == nullptr ? 0 : routes_->view().shard_map().version();
  const bool same_shards = routes_ == nullptr || !routes_->placed() || !routes->placed() ||
                           routes_->layout().shards().size() == routes->layout().shards().size();
  routes_ = std::move(routes);
  if (!same_shards) FailAll(absl::AbortedError("the job's variables have changed"), effects);
  if (!same_chunks) have_versions_.assign(routes_->num_chunks(), 0);
  if (absl::Status ended = EndedBy(*routes_); !ended.ok()) FailAll(ended, effects);
  if (!routes_->placed()) return;  // what waits goes on waiting
  RouteUnsentAnew(former_map, effects);
  std::vector<WireMessage*> awaiting;
  for (const auto& [id, message] : messages_) {
    if (message->state == MessageState::kAwaitingView) awaiting.push_back(message.get());
  }
  for (WireMessage* message : awaiting) {
    options_.executor->Cancel(message->timer);
    Requeue(message, effects);
  }
  MarkCut(effects);
}

void TransferEngine::Adopt(uint64_t attempt) {
  Effects effects;
  {
    MutexLock lock(mutex_);
    if (attempt == attempt_ || routes_ == nullptr) return;
    FailAll(StaleAttempt(attempt_, attempt), effects);
    attempt_ = attempt;
    step_generation_ = 0;
    ledger_ = PushLedger(static_cast<size_t>(routes_->view().declaration().groups_size()) + 1);
    std::fill(have_versions_.begin(), have_versions_.end(), 0);
    MarkCut(effects);
  }
  Perform(std::move(effects));
}

bool TransferEngine::IsOver(uint64_t attempt) const {
  MutexLock lock(mutex_);
  return attempt <= over_;
}

uint64_t TransferEngine::acknowledged_examples() const {
  MutexLock lock(mutex_);
  return ledger_.acknowledged();
}

uint64_t TransferEngine::next_step() const {
  MutexLock lock(mutex_);
  return ledger_.next_step();
}

absl::Status TransferEngine::EndedBy(const Routes& routes) const {
  const v1::JobView& view = routes.view();
  WEIR_RETURN_IF_ERROR(CheckNotEnded(view));
  if (follows_attempts() || attempt_ == 0) return absl::OkStatus();
  if (view.attempt() != attempt_) return StaleAttempt(attempt_, view.attempt());
  if (!routes.IsMember(options_.worker)) {
    return NotAMember(options_.worker, "the coordinator's view no longer has it");
  }
  return absl::OkStatus();
}

void TransferEngine::MarkCut(Effects& effects) {
  const v1::JobView& view = routes_->view();
  if (view.attempt() != attempt_ || view.cut() == 0) return;
  std::optional<PushLedger::Cut> cut = ledger_.Mark(view.cut());
  if (cut.has_value()) effects.cut = CutReport{attempt_, *std::move(cut)};
}

// What is queued for a server that is not listed any more goes where its shards are now; so does
// what is queued for others, where shards have moved. Lanes to the former end.
void TransferEngine::RouteUnsentAnew(uint64_t former_map, Effects& effects) {
  const bool moved = routes_->view().shard_map().version() != former_map;
  std::vector<Batch> stranded;
  std::vector<WireMessage*> to_requeue;
  for (auto entry = lanes_.begin(); entry != lanes_.end();) {
    const auto& servers = routes_->view().shard_map().servers();
    Lane& lane = *entry->second;
    const bool listed =
        std::any_of(servers.begin(), servers.end(), [&](const v1::ServerInfo& server) {
          return LaneKey(server.incarnation(), server.address()) == entry->first;
        });
    if (listed && !moved) {
      ++entry;
      continue;
    }
    std::move(lane.fresh.begin(), lane.fresh.end(), std::back_inserter(stranded));
    lane.fresh.clear();
    to_requeue.insert(to_requeue.end(), lane.again.begin(), lane.again.end());
    lane.again.clear();
    if (!listed && lane.calls == 0 && lane.in_flight_bytes == 0 && !lane.pumping) {
      effects.to_close.push_back(std::move(lane.endpoint));
      lanes_.erase(entry++);
    } else {
      ++entry;
    }
  }
  for (Batch& batch : stranded) {
    const std::vector<Piece> pieces(batch.pieces.begin(), batch.pieces.end());
    Distribute(batch.transfer, batch.call, pieces, effects);
    --batch.transfer->open;
  }
  for (WireMessage* message : to_requeue) Requeue(message, effects);
}

const v1::ServerInfo& TransferEngine::ServerOf(Call call, const Piece& piece) const {
  if (call != Call::kReduce) return routes_->server_of(piece.shard);
  const v1::JobView& view = routes_->view();
  return view.shard_map().servers(static_cast<int>(ServerOfPiece(view, piece.shard)));
}

void TransferEngine::Distribute(const std::shared_ptr<Transfer>& transfer, Call call,
                                absl::Span<const Piece> pieces, Effects& effects) {
  absl::flat_hash_map<const v1::ServerInfo*, std::deque<Piece>> by_server;
  for (const Piece& piece : pieces) by_server[&ServerOf(call, piece)].push_back(piece);
  for (auto& [server, its_pieces] : by_server) {
    std::shared_ptr<Lane> lane = LaneOf(*server);
    lane->fresh.push_back({transfer, call, std::move(its_pieces)});
    ++transfer->open;
    effects.to_pump.push_back(std::move(lane));
  }
}

std::shared_ptr<Lane> TransferEngine::LaneOf(const v1::ServerInfo& server) {
  std::shared_ptr<Lane>& lane = lanes_[LaneKey(server.incarnation(), server.address())];
  if (lane == nullptr) {
    lane = std::make_shared<Lane>();
    lane->server = server;
  }
  return lane;
}

}  // namespace weir
