// SPDX-License-Identifier: Apache-2.0
// How a job starts, and starts again: declaration, placement, first values or a checkpoint.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "coordinator/coordinated_job.h"
#include "coordinator/declaration_check.h"
#include "coordinator/job_spec_check.h"
#include "coordinator/message_difference.h"
#include "coordinator/placement.h"
#include "coordinator/sync_groups.h"
#include "coordinator/turn_log.h"
#include "rpc/errors.h"
#include "rpc/regime.h"

namespace weir {
namespace {

constexpr absl::Duration kRestoreTimeout = absl::Minutes(30);
constexpr absl::Duration kRestoreRetry = absl::Seconds(1);

}  // namespace

absl::Status CoordinatedJob::Declare(const v1::DeclareRequest& request, Turn& turn) {
  WEIR_RETURN_IF_ERROR(roster_.Check(request.worker()));
  const v1::Declaration& declaration = request.declaration();
  if (view_.declaration().ByteSizeLong() > 0) {
    const auto difference = FirstDifference(view_.declaration(), declaration);
    if (!difference) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("job '", name(), "' has declared otherwise: ", difference->key, " is ",
                     difference->left, " there and ", difference->right, " here"));
  }
  WEIR_RETURN_IF_ERROR(CheckDeclaration(declaration));
  if (spec().regime().backup_workers() > 0 && declaration.groups_size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "backup_workers: a late worker goes on with the others' step, which with ",
        declaration.groups_size(), " optimizers need not be its own; the model may have one"));
  }
  WEIR_ASSIGN_OR_RETURN(const SharedManifest source, FirstSource());
  if (source != nullptr) {
    WEIR_RETURN_IF_ERROR(CheckRestorable(source->declaration(), declaration));
  }
  WEIR_RETURN_IF_ERROR(CheckQuota(declaration));
  *ChangeView().mutable_declaration() = declaration;
  declaration_changed_ = true;
  TryStart(turn);
  return absl::OkStatus();
}

absl::Status CoordinatedJob::CheckQuota(const v1::Declaration& declaration) const {
  // Without servers what the job needs is known all the same: it is that of one server.
  std::vector<v1::ServerInfo> servers = context_.servers.Live();
  const bool none_live = servers.empty();
  if (none_live) servers.emplace_back();
  WEIR_ASSIGN_OR_RETURN(const Placement placement, PlaceJob(spec(), declaration, servers,
                                                            {.shard_bytes = spec().shard_bytes()}));
  uint64_t needed = 0;
  for (const uint64_t bytes : placement.bytes) needed += bytes;
  if (spec().max_bytes() > 0 && needed > spec().max_bytes()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("job '", name(), "' needs ", needed,
                     " bytes with slots and accumulators; its max_bytes is ", spec().max_bytes()));
  }
  for (size_t i = 0; !none_live && i < servers.size(); ++i) {
    const uint64_t limit = context_.servers.Find(servers[i].name())->record.memory_limit_bytes();
    const uint64_t used = context_.reserved_bytes(servers[i].name(), run_id());
    if (limit > 0 && used + placement.bytes[i] > limit) {
      return OutOfMemory(absl::StrCat("job '", name(), "' on server ", servers[i].name()),
                         placement.bytes[i], used, limit);
    }
  }
  return absl::OkStatus();
}

std::string CoordinatedJob::WhatIsMissing() const {
  const bool first = view_.shard_map().version() == 0;
  const uint32_t wanted = MinWorkers(spec());
  if (first && static_cast<uint32_t>(view_.members_size()) < wanted) {
    return absl::StrCat("waits for workers: ", view_.members_size(), " of ", wanted,
                        " have joined");
  }
  if (view_.declaration().ByteSizeLong() == 0) return "waits for a worker to declare its variables";
  if (context_.servers.Live().empty()) return "waits for a server: none is alive";
  return "";
}

void CoordinatedJob::Wait(const std::string& message) {
  if (view_.state() == v1::JOB_STATE_WAITING && view_.message() == message) return;
  ChangeView().set_state(v1::JOB_STATE_WAITING);
  view_.set_message(message);
}

void CoordinatedJob::TryStart(Turn& turn) {
  const std::string missing = WhatIsMissing();
  if (!missing.empty()) {
    Wait(missing);
    return;
  }
  const absl::StatusOr<SharedManifest> source = ChooseSource();
  if (!source.ok()) {
    End(v1::JOB_STATE_FAILED, std::string(source.status().message()), turn);
    return;
  }
  const absl::Status placed = Place(source->get());
  if (placed.ok()) {
    BeginAttempt(*source, turn);
  } else {
    Wait(absl::StrCat("does not fit: ", placed.message()));
  }
}

absl::StatusOr<SharedManifest> CoordinatedJob::FirstSource() const {
  const std::string& resume = spec().resume();
  if (resume.empty()) return SharedManifest();
  if (resume != "latest" && resume != "auto") return context_.checkpoints->Find(name(), resume);
  const auto manifests = context_.checkpoints->List(name());
  if (resume == "latest") {
    if (!manifests.empty()) return manifests.front();
    return absl::NotFoundError(absl::StrCat("resume: job '", name(), "' has no checkpoint"));
  }
  for (const auto& manifest : manifests) {
    if (!absl::IsDataLoss(manifest.status())) {
      if (!manifest.ok() || damaged_.count((*manifest)->id()) == 0) return manifest;
    }
  }
  return SharedManifest();
}

absl::StatusOr<SharedManifest> CoordinatedJob::ChooseSource() const {
  if (view_.shard_map().version() == 0) return FirstSource();
  const bool any_run = spec().resume() == "auto";
  for (const auto& manifest : context_.checkpoints->List(name())) {
    if (!manifest.ok() || damaged_.count((*manifest)->id()) > 0) continue;
    if (any_run || (*manifest)->run_id() == run_id() ||
        (*manifest)->id() == view_.resume().checkpoint_id()) {
      return *manifest;
    }
  }
  if (!damaged_.empty()) {
    return absl::DataLossError(absl::StrCat("no intact checkpoint of job '", name(),
                                            "' is left; the newest, ", damaged_.rbegin()->first,
                                            ", is damaged: ", damaged_.rbegin()->second));
  }
  return SharedManifest();
}

bool CoordinatedJob::HoldsProgress() const {
  if (view_.state() == v1::JOB_STATE_RUNNING) return true;
  const absl::StatusOr<SharedManifest> source = ChooseSource();
  return source.ok() && *source != nullptr;
}

absl::Status CoordinatedJob::Place(const v1::Manifest* source) {
  PlacementOptions options{.version = view_.shard_map().version() + 1,
                           .shard_bytes = spec().shard_bytes()};
  // The boundaries of shards are fixed with the first declaration, and by a checkpoint.
  const v1::ShardMap& before = source != nullptr ? source->shard_map() : view_.shard_map();
  if (before.shard_bytes() > 0) {
    options.shard_bytes = before.shard_bytes();
    options.chunk_bytes = before.chunk_bytes();
  }
  WEIR_ASSIGN_OR_RETURN(Placement placement,
                        PlaceJob(spec(), view_.declaration(), context_.servers.Live(), options));
  std::map<std::string, uint64_t> bytes_on;
  for (int i = 0; i < placement.map.servers_size(); ++i) {
    const std::string& server = placement.map.servers(i).name();
    const uint64_t limit = context_.servers.Find(server)->record.memory_limit_bytes();
    const uint64_t used = context_.reserved_bytes(server, run_id());
    if (limit > 0 && used + placement.bytes[i] > limit) {
      return OutOfMemory(absl::StrCat("its part on server ", server), placement.bytes[i], used,
                         limit);
    }
    bytes_on[server] = placement.bytes[i];
  }
  bytes_on_ = std::move(bytes_on);
  *ChangeView().mutable_shard_map() = std::move(placement.map);
  return absl::OkStatus();
}

void CoordinatedJob::BeginAttempt(const SharedManifest& source, Turn& turn) {
  const uint64_t lost_before = view_.resume().lost_steps();
  v1::ResumePoint& resume = *ChangeView().mutable_resume();
  resume.Clear();
  source_ = source;
  if (source != nullptr) {
    resume.set_checkpoint_id(source->id());
    resume.set_step(source->step());
    resume.set_examples(source->examples());
    *resume.mutable_group_steps() = source->group_steps();
  }
  resume.set_lost_steps(lost_before + undone_from_ - std::min(undone_from_, resume.step()));
  undone_from_ = 0;
  roster_.StartAttempt(resume.step(), view_.attempt() > 1, turn.now());
  for (const uint64_t joining : roster_.Joining()) AddMember(joining, resume.step());
  for (v1::Member& member : *view_.mutable_members()) member.set_first_step(resume.step());
  if (HasSyncGroups(spec())) next_sync_group_ = AssignSyncGroups(view_);
  StartRanges(source.get());
  view_.clear_initialiser();
  view_.clear_cut();  // of an attempt that is over
  view_.clear_stop_step();
  if (source != nullptr) {
    view_.set_state(v1::JOB_STATE_RESTORING);
    view_.set_message(absl::StrCat("the servers load checkpoint ", source->id()));
    restore_due_ = true;
  } else {
    view_.set_state(v1::JOB_STATE_INITIALISING);
    ElectInitialiser();
  }
  LogLater(turn, spdlog::level::info,
           "attempt begins job={} attempt={} checkpoint={} step={} lost_steps={}", name(),
           view_.attempt(), resume.checkpoint_id(), resume.step(), resume.lost_steps());
}

// "; 00000012-2 is damaged: ...", of those that would have been taken before the present one.
std::string CoordinatedJob::PassedOver() const {
  std::string passed_over;
  if (view_.attempt() == 1 && spec().resume() != "auto") return passed_over;
  for (const auto& manifest : context_.checkpoints->List(name())) {
    if (!manifest.ok()) {
      absl::StrAppend(&passed_over, "; ", manifest.status().message());
      continue;
    }
    if (source_ != nullptr && (*manifest)->id() == source_->id()) break;
    const auto damaged = damaged_.find((*manifest)->id());
    if (damaged == damaged_.end()) continue;
    absl::StrAppend(&passed_over, "; ", damaged->first, " is damaged: ", damaged->second);
  }
  return passed_over;
}

void CoordinatedJob::StartRanges(const v1::Manifest* source) {
  if (!ranges_) return;
  KeepRanges();
  if (source == nullptr) {
    ranges_->Start(0, 0, {});
  } else if (IsSync(source->spec())) {
    ranges_->Start(0, source->examples(), {});
  } else {
    ranges_->Start(source->next_epoch(), source->next_position(),
                   {source->unfinished().begin(), source->unfinished().end()});
  }
}

void CoordinatedJob::Rollback(const std::string& why, Turn& turn) {
  LogLater(turn, spdlog::level::warn, "rollback job={} attempt={}: {}", name(), view_.attempt(),
           why);
  undone_from_ = StepsDone();
  const absl::Status aborted = StaleAttempt(view_.attempt(), view_.attempt() + 1);
  ChangeView().set_attempt(view_.attempt() + 1);
  view_.set_state(v1::JOB_STATE_WAITING);
  if (change_ != nullptr) change_->Abandon(turn);
  change_.reset();
  barriers_.Clear(aborted, turn);
  saver_.Interrupt(aborted, turn);
  TryStart(turn);
}

void CoordinatedJob::OnServersChanged(Turn& turn) {
  if (!live()) return;
  if (view_.state() == v1::JOB_STATE_WAITING) {
    TryStart(turn);
    return;
  }
  for (const v1::ServerInfo& server : Holders()) {
    if (context_.servers.IsLive(server)) continue;
    const ServerTable::Server* found = context_.servers.Find(server.name());
    const bool restarted = found != nullptr && found->record.live();
    Rollback(absl::StrCat("server ", server.name(),
                          restarted ? " has been restarted" : " is gone: its lease has ended"),
             turn);
    return;
  }
}

std::vector<v1::ServerInfo> CoordinatedJob::Holders() const {
  std::vector<v1::ServerInfo> holders;
  for (const uint32_t index : HoldersOf(view_.shard_map())) {
    holders.push_back(view_.shard_map().servers(static_cast<int>(index)));
  }
  return holders;
}

absl::Status CoordinatedJob::ReportInitialised(const v1::ReportInitialisedRequest& request,
                                               Turn& turn) {
  WEIR_RETURN_IF_ERROR(roster_.Check(request.worker()));
  WEIR_RETURN_IF_ERROR(CheckAttempt(request.attempt()));
  if (view_.state() == v1::JOB_STATE_RUNNING) return absl::OkStatus();
  if (view_.state() != v1::JOB_STATE_INITIALISING || view_.initialiser() != request.worker()) {
    return absl::FailedPreconditionError(
        absl::StrCat("this worker is not asked to initialise; ", view_.message()));
  }
  Run(turn);
  return absl::OkStatus();
}

void CoordinatedJob::Run(Turn& turn) {
  LogLater(turn, spdlog::level::info, "job runs job={} attempt={} workers={}", name(),
           view_.attempt(), view_.members_size());
  ChangeView().set_state(v1::JOB_STATE_RUNNING);
  // Stays, so that whoever asks later learns it too.
  const std::string passed_over = PassedOver();
  view_.set_message(passed_over.empty()
                        ? ""
                        : absl::StrCat("resumed from ", view_.resume().checkpoint_id(), " (step ",
                                       view_.resume().step(), ")", passed_over));
  view_.clear_initialiser();
  roster_.StartAttempt(view_.resume().step(), view_.attempt() > 1, turn.now());
  saver_.Rebase(turn.now(), source_ != nullptr);
  if (roster_.empty()) orphaned_at_ = std::min(orphaned_at_, turn.now());
}

void CoordinatedJob::SendRestores(Turn& turn) {
  unrestored_.clear();
  if (source_ == nullptr) {
    End(v1::JOB_STATE_FAILED,
        absl::StrCat("checkpoint ", view_.resume().checkpoint_id(), " is gone"), turn);
    return;
  }
  const std::vector<v1::ServerInfo> holders = Holders();
  for (const v1::ServerInfo& server : holders) unrestored_.insert(server.name());
  for (const v1::ServerInfo& server : holders) SendRestore(server, turn);
  if (holders.empty()) {
    turn.Later(
        [&executor = context_.executor,
         done = Reenter<absl::Status>(
             [attempt = view_.attempt()](CoordinatedJob& job, Turn& later, const absl::Status& ok) {
               job.OnRestored({}, attempt, ok, later);
             })]() mutable {
          executor.Run([done = std::move(done)]() mutable { done(absl::OkStatus()); });
        });
  }
}

void CoordinatedJob::SendRestore(const v1::ServerInfo& server, Turn& turn) {
  v1::RestoreRequest request;
  request.set_term(context_.term);
  *request.mutable_view() = view_;
  request.set_checkpoint_id(source_->id());
  *request.mutable_parts() = source_->parts();
  *request.mutable_layout() = source_->shard_map();
  for (const v1::CheckpointPart& part : source_->parts()) {
    const ServerTable::Server* writer = context_.servers.Find(part.server());
    const bool remote =
        part.server() != server.name() && writer != nullptr && writer->record.live();
    request.add_fetch_addresses(remote ? writer->record.server().address() : "");
  }
  turn.Later(
      [&transport = context_.transport, server, request = std::move(request),
       done = Reenter<absl::StatusOr<v1::RestoreReply>>(
           [server, attempt = view_.attempt()](CoordinatedJob& job, Turn& later,
                                               const absl::StatusOr<v1::RestoreReply>& reply) {
             job.OnRestored(server, attempt, reply.status(), later);
           })]() mutable { transport.Restore(server, request, kRestoreTimeout, std::move(done)); });
}

void CoordinatedJob::OnRestored(const v1::ServerInfo& server, uint64_t attempt,
                                const absl::Status& status, Turn& turn) {
  if (attempt != view_.attempt() || view_.state() != v1::JOB_STATE_RESTORING) return;
  if (!status.ok()) {
    OnRestoreFailed(server, status, turn);
    return;
  }
  unrestored_.erase(server.name());
  if (unrestored_.empty()) Run(turn);
}

void CoordinatedJob::OnRestoreFailed(const v1::ServerInfo& server, const absl::Status& status,
                                     Turn& turn) {
  const std::string message = absl::StrCat("checkpoint ", view_.resume().checkpoint_id(),
                                           " on server ", server.name(), ": ", status.message());
  LogLater(turn, spdlog::level::warn, "restore failed job={} {}", name(), message);
  const bool chosen = !spec().resume().empty() && spec().resume() != "auto" && source_ != nullptr &&
                      source_->run_id() != run_id();
  if (absl::IsDataLoss(status) && !chosen) {
    damaged_[view_.resume().checkpoint_id()] =
        absl::StrCat("on server ", server.name(), ": ", status.message());
    Rollback(message, turn);
    return;
  }
  if (absl::IsDataLoss(status) || absl::IsFailedPrecondition(status) ||
      absl::IsInvalidArgument(status) || absl::IsUnimplemented(status)) {
    End(v1::JOB_STATE_FAILED, message, turn);
    return;
  }
  // The server, or the one that has a part, is away: it comes back, or its lease ends.
  ChangeView().set_message(absl::StrCat("tries again: ", message));
  turn.Later(
      [&executor = context_.executor,
       again = Reenter<absl::Status>([server, attempt = view_.attempt()](
                                         CoordinatedJob& job, Turn& later, const absl::Status&) {
         if (attempt != job.view_.attempt() || job.view_.state() != v1::JOB_STATE_RESTORING) {
           return;
         }
         job.SendRestore(server, later);
       })]() mutable {
        executor.RunAfter(kRestoreRetry,
                          [again = std::move(again)]() mutable { again(absl::OkStatus()); });
      });
}

}  // namespace weir
