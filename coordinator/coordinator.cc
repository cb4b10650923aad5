// SPDX-License-Identifier: Apache-2.0
// The coordinator's life: what it loads, its turns, its clock.
#include "coordinator/coordinator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"
#include "coordinator/turn_log.h"
#include "coordinator/turns.h"

namespace weir {
namespace {

constexpr char kTermKey[] = "term";
constexpr size_t kMostEndedRuns = 200;
constexpr uint64_t kTicksBetweenDrops = 100;

absl::Status Damaged(const std::string& key) {
  return absl::DataLossError(absl::StrCat("the coordinator's record '", key, "' cannot be read"));
}

template <typename Record>
absl::Status Parse(const std::map<std::string, std::string>& kept, const std::string& key,
                   Record& record) {
  const auto found = kept.find(key);
  if (found == kept.end()) return absl::OkStatus();
  return record.ParseFromString(found->second) ? absl::OkStatus() : Damaged(key);
}

}  // namespace

absl::StatusOr<std::shared_ptr<Coordinator>> Coordinator::Create(Options options) {
  WEIR_ASSIGN_OR_RETURN(const auto kept, options.store->Load());
  v1::TermRecord term;
  WEIR_RETURN_IF_ERROR(Parse(kept, kTermKey, term));
  term.set_term(term.term() + 1);
  WEIR_RETURN_IF_ERROR(options.store->Write({{kTermKey, term.SerializeAsString()}}));
  WEIR_ASSIGN_OR_RETURN(auto catalog,
                        CheckpointCatalog::Open(*options.manifests, *options.executor));
  std::shared_ptr<Coordinator> coordinator(new Coordinator(std::move(options), term.term()));
  coordinator->context_->checkpoints = catalog;
  coordinator->context_->dropper =
      std::make_shared<PartDropper>(catalog, *coordinator->options_.transport);
  for (const v1::Manifest& remains : catalog->TakeRemains()) {
    coordinator->context_->dropper->Add(remains);
  }
  coordinator->context_->enter = [weak = std::weak_ptr<Coordinator>(coordinator)](uint64_t run,
                                                                                  JobTask task) {
    if (const auto self = weak.lock()) self->EnterJob(run, std::move(task));
  };
  WEIR_RETURN_IF_ERROR(coordinator->Load(kept));
  coordinator->ScheduleTick();
  return coordinator;
}

Coordinator::Coordinator(Options options, uint64_t term)
    : options_(std::move(options)),
      term_(term),
      outbox_(std::make_shared<Outbox>(*options_.store, *options_.executor)),
      hub_(std::make_shared<WatchHub>()),
      servers_(options_.lease),
      context_(new JobContext{.servers = servers_,
                              .transport = *options_.transport,
                              .executor = *options_.executor,
                              .hub = hub_,
                              .checkpoints = nullptr,
                              .dropper = nullptr,
                              .term = term,
                              .lease = options_.lease,
                              .heartbeat = options_.heartbeat,
                              .enter = nullptr,
                              .reserved_bytes = nullptr}) {
  context_->reserved_bytes = [this](const std::string& server, uint64_t but) {
    AssertInTurn();
    uint64_t bytes = 0;
    for (const auto& [run, job] : jobs_) {
      if (run != but && job->live()) bytes += job->BytesOn(server);
    }
    return bytes;
  };
}

absl::Status Coordinator::Load(const std::map<std::string, std::string>& kept) {
  absl::Status status;
  InTurn([&](Turn& turn) {
    AssertInTurn();
    last_tick_ = turn.now();
    for (const auto& [key, value] : kept) {
      if (!status.ok()) return;
      if (absl::StartsWith(key, "server/")) {
        v1::ServerRecord record;
        status = Parse(kept, key, record);
        servers_.Load(record, turn.now());
      }
    }
    for (const auto& [key, value] : kept) {
      if (!status.ok()) return;
      if (absl::StartsWith(key, "job/")) status = LoadJob(key, kept, turn);
    }
  });
  return status;
}

absl::Status Coordinator::LoadJob(const std::string& key,
                                  const std::map<std::string, std::string>& kept, Turn& turn) {
  const std::string run(absl::StripPrefix(key, "job/"));
  v1::JobRecord record;
  v1::Declaration declaration;
  v1::RangesRecord ranges;
  WEIR_RETURN_IF_ERROR(Parse(kept, key, record));
  WEIR_RETURN_IF_ERROR(Parse(kept, absl::StrCat("declaration/", run), declaration));
  WEIR_RETURN_IF_ERROR(Parse(kept, absl::StrCat("ranges/", run), ranges));
  const uint32_t ranks = std::max(1u, record.view().spec().workers());
  for (const v1::WorkerRecord& worker : record.workers()) {
    if (worker.rank() >= ranks) return Damaged(key);
  }
  if (record.view().run_id() == 0) return Damaged(key);
  jobs_[record.view().run_id()] =
      std::make_unique<CoordinatedJob>(*context_, record, declaration, ranges, turn);
  return absl::OkStatus();
}

void Coordinator::EnterJob(uint64_t run_id, JobTask task) {
  InTurn([&](Turn& turn) {
    AssertInTurn();
    const auto found = jobs_.find(run_id);
    if (found != jobs_.end()) std::move(task)(*found->second, turn);
  });
}

void Coordinator::ScheduleTick() {
  options_.executor->RunAfter(options_.tick, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Tick();
  });
}

void Coordinator::Tick() {
  bool stopping = false;
  InTurn([&](Turn& turn) {
    AssertInTurn();
    stopping = stopping_;
    if (stopping_) return;
    ForgiveDeafness(turn);
    for (const std::string& server : servers_.EndLeases(turn)) {
      LogLater(turn, spdlog::level::warn,
               "server goes name={}: its lease ended without a heartbeat", server);
      for (auto& [run, job] : jobs_) job->OnServersChanged(turn);
    }
    for (auto& [run, job] : jobs_) job->Tick(turn);
    ForgetOldRuns(turn);
    if (++ticks_ % kTicksBetweenDrops == 0) {
      turn.Later([dropper = context_->dropper, live = servers_.Live(), term = term_] {
        dropper->Ask(live, term);
      });
    }
  });
  if (!stopping) ScheduleTick();
}

void Coordinator::ForgiveDeafness(Turn& turn) {
  const absl::Duration since = turn.now() - std::exchange(last_tick_, turn.now());
  if (since <= options_.lease / 4 + options_.tick) return;
  LogLater(turn, spdlog::level::warn, "this process stood still for {}; leases are extended by it",
           absl::FormatDuration(since));
  servers_.Extend(since);
  for (auto& [run, job] : jobs_) job->roster().Extend(since);
}

void Coordinator::ForgetOldRuns(Turn& turn) {
  while (true) {
    size_t ended = 0;
    CoordinatedJob* oldest = nullptr;
    for (auto& [run, job] : jobs_) {
      if (job->live()) continue;
      ++ended;
      if (oldest == nullptr || job->finished_unix_ms() < oldest->finished_unix_ms()) {
        oldest = job.get();
      }
    }
    if (ended <= kMostEndedRuns) return;
    const std::string run = absl::StrCat(absl::Hex(oldest->run_id(), absl::kZeroPad16));
    turn.Erase(absl::StrCat("job/", run));
    turn.Erase(absl::StrCat("declaration/", run));
    turn.Erase(absl::StrCat("ranges/", run));
    jobs_.erase(oldest->run_id());
  }
}

void Coordinator::Shutdown() {
  InTurn([&](Turn& turn) {
    AssertInTurn();
    stopping_ = true;
    for (auto& [run, job] : jobs_) job->Shutdown(Stopping(), turn);
  });
}

}  // namespace weir
