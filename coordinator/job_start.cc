// SPDX-License-Identifier: Apache-2.0
// How a job starts, and starts again: declaration, placement, first values or a checkpoint.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "coordinator/coordinated_job.h"
#include "coordinator/declaration_check.h"
#include "coordinator/job_spec_check.h"
#include "coordinator/placement.h"
#include "coordinator/sync_groups.h"
#include "coordinator/turn_log.h"
#include "rpc/errors.h"
#include "rpc/resume_point.h"

namespace weir {
absl::Status CoordinatedJob::Declare(const v1::DeclareRequest& request, Turn& turn) {
  WEIR_RETURN_IF_ERROR(roster_.Check(WorkerId{request.worker()}));
  const v1::Declaration& declaration = request.declaration();
  if (view_.declaration().ByteSizeLong() > 0) {
    const auto difference = DeclarationDifference(view_.declaration(), declaration);
    if (!difference) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("job '", name(),
                                                      "' has declared otherwise: ", *difference,
                                                      "; all its workers must declare the same"));
  }
  WEIR_RETURN_IF_ERROR(CheckDeclaration(declaration));
  if (spec().regime().backup_workers() > 0 && declaration.groups_size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "backup_workers: a late worker goes on with the others' step, which with ",
        declaration.groups_size(), " optimizers need not be its own; the model may have one"));
  }
  WEIR_ASSIGN_OR_RETURN(const SharedManifest source, choice_.OfFirstAttempt(spec()));
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
  const absl::StatusOr<SharedManifest> source = choice_.Choose(view_, last_cut_);
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

bool CoordinatedJob::HoldsProgress() const {
  if (view_.state() == v1::JOB_STATE_RUNNING) return true;
  const absl::StatusOr<SharedManifest> source = choice_.Choose(view_, last_cut_);
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
  resume = source != nullptr ? ResumePointOf(*source, spec()) : v1::ResumePoint();
  source_ = source;
  resume.set_lost_steps(lost_before + undone_from_ - std::min(undone_from_, resume.step()));
  undone_from_ = 0;
  roster_.StartAttempt(resume.step(), turn.now());
  for (const WorkerId joining : roster_.Joining()) {
    AddMember(joining, {.first_step = resume.step()});
  }
  for (v1::Member& member : *view_.mutable_members()) member.set_first_step(resume.step());
  if (HasSyncGroups(spec())) next_sync_group_ = AssignSyncGroups(view_);
  StartRanges(source.get());
  view_.clear_initialiser();
  view_.clear_cut();  // of an attempt that is over
  ClearStopSteps(view_);
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

void CoordinatedJob::StartRanges(const v1::Manifest* source) {
  if (!ranges_) return;
  KeepRanges();
  if (source == nullptr) {
    ranges_->Start({});
  } else if (!HasDataRanges(*source)) {
    ranges_->Start({.position = DataDone(*source)});
  } else {
    ranges_->Start({.epoch = source->next_epoch(),
                    .position = source->next_position(),
                    .unfinished = {source->unfinished().begin(), source->unfinished().end()}});
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
    Rollback(absl::StrCat("server ", server.name(), restarted ? " has been restarted" : " is gone"),
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
  WEIR_RETURN_IF_ERROR(roster_.Check(WorkerId{request.worker()}));
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
  const std::string passed_over = choice_.PassedOver(view_, source_);
  view_.set_message(passed_over.empty()
                        ? ""
                        : absl::StrCat("resumed from ", view_.resume().checkpoint_id(), " (step ",
                                       view_.resume().step(), ")", passed_over));
  view_.clear_initialiser();
  roster_.StartAttempt(view_.resume().step(), turn.now());
  saver_.Rebase(turn.now(), source_ != nullptr);
  if (roster_.empty()) orphaned_at_ = std::min(orphaned_at_, turn.now());
}

}  // namespace weir
