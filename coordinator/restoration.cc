// SPDX-License-Identifier: Apache-2.0
#include "coordinator/restoration.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/coordinated_job.h"
#include "coordinator/turn_log.h"

namespace weir {
namespace {

constexpr absl::Duration kRestoreTimeout = absl::Minutes(30);
constexpr absl::Duration kRestoreRetry = absl::Seconds(1);

}  // namespace

void Restoration::Start(Turn& turn) {
  missing_.clear();
  if (job_.source() == nullptr) {
    job_.End(v1::JOB_STATE_FAILED,
             absl::StrCat("checkpoint ", job_.view().resume().checkpoint_id(), " is gone"), turn);
    return;
  }
  const std::vector<v1::ServerInfo> holders = job_.Holders();
  for (const v1::ServerInfo& server : holders) missing_.insert(server.name());
  for (const v1::ServerInfo& server : holders) Ask(server, turn);
  if (holders.empty()) {
    turn.Later([&executor = job_.context().executor,
                done = job_.Reenter<absl::Status>(
                    [attempt = job_.view().attempt()](CoordinatedJob& job, Turn& later,
                                                      const absl::Status& ok) {
                      job.restoration().OnAnswer({}, attempt, ok, later);
                    })]() mutable {
      executor.Run([done = std::move(done)]() mutable { done(absl::OkStatus()); });
    });
  }
}

void Restoration::Ask(const v1::ServerInfo& server, Turn& turn) {
  const v1::Manifest& source = *job_.source();
  v1::RestoreRequest request;
  request.set_term(job_.context().term);
  *request.mutable_view() = job_.view();
  request.set_checkpoint_id(source.id());
  *request.mutable_parts() = source.parts();
  *request.mutable_layout() = source.shard_map();
  for (const v1::CheckpointPart& part : source.parts()) {
    const ServerTable::Server* writer = job_.context().servers.Find(part.server());
    const bool remote =
        part.server() != server.name() && writer != nullptr && writer->record.live();
    request.add_fetch_addresses(remote ? writer->record.server().address() : "");
  }
  turn.Later(
      [&transport = job_.context().transport, server, request = std::move(request),
       done = job_.Reenter<absl::StatusOr<v1::RestoreReply>>(
           [server, attempt = job_.view().attempt()](
               CoordinatedJob& job, Turn& later, const absl::StatusOr<v1::RestoreReply>& reply) {
             job.restoration().OnAnswer(server, attempt, reply.status(), later);
           })]() mutable { transport.Restore(server, request, kRestoreTimeout, std::move(done)); });
}

bool Restoration::IsOf(uint64_t attempt) const {
  return attempt == job_.view().attempt() && job_.view().state() == v1::JOB_STATE_RESTORING;
}

void Restoration::OnAnswer(const v1::ServerInfo& server, uint64_t attempt,
                           const absl::Status& status, Turn& turn) {
  if (!IsOf(attempt)) return;
  if (!status.ok()) {
    OnFailure(server, status, turn);
    return;
  }
  missing_.erase(server.name());
  if (missing_.empty()) job_.Run(turn);
}

void Restoration::OnFailure(const v1::ServerInfo& server, const absl::Status& status, Turn& turn) {
  const std::string& id = job_.view().resume().checkpoint_id();
  const std::string message =
      absl::StrCat("checkpoint ", id, " on server ", server.name(), ": ", status.message());
  LogLater(turn, spdlog::level::warn, "restore failed job={} {}", job_.name(), message);
  const std::string& resume = job_.spec().resume();
  const bool chosen = !resume.empty() && resume != "auto" && job_.source() != nullptr &&
                      job_.source()->run_id() != job_.run_id();
  if (absl::IsDataLoss(status) && !chosen) {
    job_.choice().NoteDamage(id, absl::StrCat("on server ", server.name(), ": ", status.message()));
    job_.Rollback(message, turn);
    return;
  }
  if (absl::IsDataLoss(status) || absl::IsFailedPrecondition(status) ||
      absl::IsInvalidArgument(status) || absl::IsUnimplemented(status)) {
    job_.End(v1::JOB_STATE_FAILED, message, turn);
    return;
  }
  // The server, or the one that has a part, is away: it comes back, or its lease ends.
  job_.ChangeView().set_message(absl::StrCat("tries again: ", message));
  AskLater(server, turn);
}

void Restoration::AskLater(const v1::ServerInfo& server, Turn& turn) {
  turn.Later([&executor = job_.context().executor,
              again = job_.Reenter<absl::Status>(
                  [server, attempt = job_.view().attempt()](CoordinatedJob& job, Turn& later,
                                                            const absl::Status&) {
                    if (job.restoration().IsOf(attempt)) job.restoration().Ask(server, later);
                  })]() mutable {
    executor.RunAfter(kRestoreRetry,
                      [again = std::move(again)]() mutable { again(absl::OkStatus()); });
  });
}

}  // namespace weir
