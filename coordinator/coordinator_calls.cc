// SPDX-License-Identifier: Apache-2.0
// The calls of servers and workers.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "coordinator/coordinator.h"
#include "coordinator/job_spec_check.h"
#include "coordinator/message_difference.h"
#include "coordinator/roster.h"
#include "coordinator/turn_log.h"
#include "coordinator/turns.h"
#include "rpc/protocol.h"
#include "rpc/run_again.h"

namespace weir {
namespace {

absl::Status CheckWorker(const v1::RegisterRequest& request, const std::string& build) {
  if (request.worker() == 0) return absl::InvalidArgumentError("worker: must not be 0");
  if (request.protocol_min() > kProtocol || request.protocol_max() < kProtocol) {
    return absl::FailedPreconditionError(
        absl::StrCat("this coordinator (", build, ") speaks protocol ", kProtocol, ", the worker (",
                     request.build(), ") ", request.protocol_min(), " to ", request.protocol_max(),
                     "; install equal versions"));
  }
  WEIR_RETURN_IF_ERROR(CheckJobSpec(request.spec()));
  return CheckRank(request.wanted_rank(), request.spec().workers());
}

bool NamesCheckpoint(const v1::JobSpec& spec) {
  return !spec.resume().empty() && spec.resume() != "latest" && spec.resume() != "auto";
}

// What a run is asked to do now is no part of what the job is.
v1::JobSpec JobOf(v1::JobSpec spec) {
  spec.clear_resume();
  spec.clear_replace();
  return spec;
}

bool AskAlike(const v1::JobSpec& a, const v1::JobSpec& b) {
  return a.resume() == b.resume() && a.replace() == b.replace();
}

// Whether who asks for this wants another run than the live one of the same job. Workers that come
// back one by one repeat their request: it has been met by the run that it began.
bool BeginsAnew(const CoordinatedJob& live, const v1::JobSpec& spec) {
  if (spec.replace()) return true;
  if (NamesCheckpoint(spec)) return spec.resume() != live.spec().resume();
  return !spec.resume().empty() && live.abandoned() && !live.HoldsProgress();
}

absl::Status LiveWithOtherSpec(const CoordinatedJob& live, const MessageDifference& difference) {
  const std::string differs = absl::StrCat(difference.key, " is ", difference.left, " there and ",
                                           difference.right, " here");
  if (!live.abandoned()) {
    return absl::FailedPreconditionError(
        absl::StrCat("job '", live.name(), "' is live with another specification: ", differs));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "job '", live.name(), "' has no workers, but is live with another specification (", differs,
      "); end it with `weir stop ", live.name(), "`, which saves a checkpoint to go on from, or ",
      kBeginAnew));
}

absl::Status StillRuns(const CoordinatedJob& live) {
  return absl::FailedPreconditionError(
      absl::StrCat("job '", live.name(), "' is being trained by ", live.view().members_size(),
                   " workers; end it first with `weir stop ", live.name(), "`"));
}

}  // namespace

void Coordinator::RegisterServer(const v1::RegisterServerRequest& request,
                                 Done<v1::RegisterServerReply> done) {
  InTurn([&](Turn& turn) {
    AssertInTurn();
    const absl::StatusOr<bool> changed = servers_.Register(request, turn);
    if (!changed.ok()) {
      AnswerLater<v1::RegisterServerReply>(turn, std::move(done), changed.status());
      return;
    }
    v1::RegisterServerReply reply;
    reply.set_term(term_);
    reply.set_lease_ms(absl::ToInt64Milliseconds(options_.lease));
    reply.set_heartbeat_ms(absl::ToInt64Milliseconds(options_.heartbeat));
    AnswerLater<v1::RegisterServerReply>(turn, std::move(done), reply);
    if (!*changed) return;
    LogLater(turn, spdlog::level::info, "server registers name={} address={} incarnation={:016x}",
             request.server().name(), request.server().address(), request.server().incarnation());
    for (auto& [run, job] : jobs_) job->OnServersChanged(turn);
    turn.Later([dropper = context_->dropper, live = servers_.Live(), term = term_] {
      dropper->Ask(live, term);
    });
  });
}

CoordinatedJob* Coordinator::Live(const std::string& name) {
  for (auto& [run, job] : jobs_) {
    if (job->live() && job->name() == name) return job.get();
  }
  return nullptr;
}

std::vector<CoordinatedJob*> Coordinator::NewestFirst() {
  std::vector<CoordinatedJob*> jobs;
  for (auto& [run, job] : jobs_) jobs.push_back(job.get());
  std::stable_sort(jobs.begin(), jobs.end(), [](const CoordinatedJob* a, const CoordinatedJob* b) {
    if (a->live() != b->live()) return a->live();
    if (!a->live() && a->finished_unix_ms() != b->finished_unix_ms()) {
      return a->finished_unix_ms() > b->finished_unix_ms();
    }
    return a->created_unix_ms() > b->created_unix_ms();
  });
  return jobs;
}

CoordinatedJob* Coordinator::Newest(const std::string& name) {
  CoordinatedJob* newest = nullptr;
  for (auto& [run, job] : jobs_) {
    if (job->name() != name) continue;
    if (newest == nullptr || job->created_unix_ms() > newest->created_unix_ms()) newest = job.get();
  }
  return newest;
}

absl::Status Coordinator::CheckFormerRun(const std::string& name) {
  if (const CoordinatedJob* former = Newest(name)) return former->CheckMayBeForgotten();
  for (const auto& manifest : context_->checkpoints->List(name)) {
    if (manifest.ok()) return CheckMayBeForgotten(**manifest);
  }
  return absl::OkStatus();
}

absl::Status Coordinator::CheckName(const v1::JobSpec& spec) {
  if (!spec.replace() && spec.resume().empty()) {
    WEIR_RETURN_IF_ERROR(CheckFormerRun(spec.name()));
  }
  const auto& checkpoints = *context_->checkpoints;
  if (spec.resume() == "latest" && checkpoints.List(spec.name()).empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("resume: job '", spec.name(), "' has no checkpoint"));
  }
  if (NamesCheckpoint(spec)) {
    const absl::Status found = checkpoints.Find(spec.name(), spec.resume()).status();
    if (!found.ok()) {
      return absl::FailedPreconditionError(absl::StrCat("resume: ", found.message()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<CoordinatedJob*> Coordinator::FindOrStart(const v1::RegisterRequest& request,
                                                         Turn& turn) {
  const v1::JobSpec& spec = request.spec();
  if (CoordinatedJob* live = Live(spec.name()); live != nullptr) {
    if (live->HasWorker(WorkerId{request.worker()})) return live;
    const auto difference = FirstDifference(JobOf(live->spec()), JobOf(spec));
    if (difference && !spec.replace()) return LiveWithOtherSpec(*live, *difference);
    if (!difference && !BeginsAnew(*live, spec)) return live;
    if (!live->abandoned()) {
      WEIR_RETURN_IF_ERROR(live->CheckWorkersLive(WorkerId{request.worker()}, turn));
      if (!difference && AskAlike(live->spec(), spec)) return live;
      return StillRuns(*live);
    }
    WEIR_RETURN_IF_ERROR(CheckName(spec));
    live->End(v1::JOB_STATE_FAILED, "replaced by a new run", turn);
  } else {
    WEIR_RETURN_IF_ERROR(CheckName(spec));
  }
  uint64_t run_id = options_.random();
  while (run_id == 0 || jobs_.count(run_id) > 0) run_id = options_.random();
  LogLater(turn, spdlog::level::info, "job begins job={} run={:016x}", spec.name(), run_id);
  // After any former run of the name, also where the machine's clock was set back since.
  auto created_unix_ms = static_cast<uint64_t>(absl::ToUnixMillis(turn.wall_now()));
  if (const CoordinatedJob* former = Newest(spec.name()); former != nullptr) {
    created_unix_ms = std::max(created_unix_ms, former->created_unix_ms() + 1);
  }
  auto& job = jobs_[run_id];
  job = std::make_unique<CoordinatedJob>(*context_, spec, run_id, created_unix_ms);
  return job.get();
}

absl::StatusOr<v1::RegisterReply> Coordinator::RegisterWorker(const v1::RegisterRequest& request,
                                                              Turn& turn) {
  WEIR_RETURN_IF_ERROR(CheckWorker(request, options_.build));
  WEIR_ASSIGN_OR_RETURN(CoordinatedJob* const job, FindOrStart(request, turn));
  return job->Register(request, turn);
}

void Coordinator::Register(const v1::RegisterRequest& request, Done<v1::RegisterReply> done) {
  InTurn([&](Turn& turn) {
    AssertInTurn();
    AnswerLater<v1::RegisterReply>(turn, std::move(done), RegisterWorker(request, turn));
  });
}

void Coordinator::Heartbeat(const v1::HeartbeatRequest& request, Done<v1::HeartbeatReply> done) {
  v1::HeartbeatReply reply;
  reply.set_term(term_);
  if (request.run_id() != 0) {
    InJob<v1::HeartbeatReply>(
        request.run_id(), std::move(done),
        [&](CoordinatedJob& job, Turn& turn) -> absl::StatusOr<v1::HeartbeatReply> {
          WEIR_RETURN_IF_ERROR(job.Heartbeat(request, turn));
          return reply;
        });
    return;
  }
  InTurn([&](Turn& turn) {
    AssertInTurn();
    const absl::Status status = servers_.Heartbeat(request, turn.now());
    for (const v1::Departure& departure : request.report().departures()) {
      const auto job = jobs_.find(departure.run_id());
      if (status.ok() && job != jobs_.end()) job->second->NoteDeparture(departure);
    }
    AnswerLater<v1::HeartbeatReply>(
        turn, std::move(done), status.ok() ? absl::StatusOr<v1::HeartbeatReply>(reply) : status);
  });
}

absl::Status Coordinator::LeaveServer(uint64_t incarnation, Turn& turn) {
  WEIR_ASSIGN_OR_RETURN(const std::string name, servers_.Leave(incarnation, turn));
  LogLater(turn, spdlog::level::info, "server goes name={}: it stops", name);
  for (auto& [run, job] : jobs_) job->OnServersChanged(turn);
  return absl::OkStatus();
}

void Coordinator::Leave(const v1::LeaveRequest& request, Done<v1::LeaveReply> done) {
  if (request.run_id() == 0) {
    InTurn([&](Turn& turn) {
      AssertInTurn();
      const absl::Status left = LeaveServer(request.worker(), turn);
      AnswerLater<v1::LeaveReply>(turn, std::move(done), OrEmpty<v1::LeaveReply>(left));
    });
    return;
  }
  InJob<v1::LeaveReply>(request.run_id(), std::move(done),
                        [&](CoordinatedJob& job, Turn& turn) { return job.Leave(request, turn); });
}

void Coordinator::Declare(const v1::DeclareRequest& request, Done<v1::DeclareReply> done) {
  InJob<v1::DeclareReply>(request.run_id(), std::move(done), [&](CoordinatedJob& job, Turn& turn) {
    return OrEmpty<v1::DeclareReply>(job.Declare(request, turn));
  });
}

void Coordinator::ReportInitialised(const v1::ReportInitialisedRequest& request,
                                    Done<v1::ReportInitialisedReply> done) {
  InJob<v1::ReportInitialisedReply>(
      request.run_id(), std::move(done), [&](CoordinatedJob& job, Turn& turn) {
        return OrEmpty<v1::ReportInitialisedReply>(job.ReportInitialised(request, turn));
      });
}

void Coordinator::TakeRanges(const v1::TakeRangesRequest& request, Done<v1::TakeRangesReply> done) {
  InJob<v1::TakeRangesReply>(
      request.run_id(), std::move(done),
      [&](CoordinatedJob& job, Turn& turn) { return job.TakeRanges(request, turn); });
}

void Coordinator::ReportProgress(const v1::ReportProgressRequest& request,
                                 Done<v1::ReportProgressReply> done) {
  InJob<v1::ReportProgressReply>(
      request.run_id(), std::move(done), [&](CoordinatedJob& job, Turn& turn) {
        return OrEmpty<v1::ReportProgressReply>(job.ReportProgress(request, turn));
      });
}

void Coordinator::ReportCut(const v1::ReportCutRequest& request, Done<v1::ReportCutReply> done) {
  InJob<v1::ReportCutReply>(request.run_id(), std::move(done),
                            [&](CoordinatedJob& job, Turn& turn) {
                              return OrEmpty<v1::ReportCutReply>(job.ReportCut(request, turn));
                            });
}

void Coordinator::Barrier(const v1::BarrierRequest& request, absl::Time deadline,
                          Done<v1::BarrierReply> done) {
  InTurn([&](Turn& turn) {
    AssertInTurn();
    const auto found = jobs_.find(request.run_id());
    if (stopping_) {
      AnswerLater<v1::BarrierReply>(turn, std::move(done), Stopping());
    } else if (found != jobs_.end()) {
      found->second->Barrier(request, deadline, std::move(done), turn);
    } else {
      AnswerLater<v1::BarrierReply>(turn, std::move(done), absl::NotFoundError("no such run"));
    }
  });
}

void Coordinator::SaveCheckpoint(const v1::SaveCheckpointRequest& request, absl::Time deadline,
                                 Done<v1::SaveCheckpointReply> done) {
  InTurn([&](Turn& turn) {
    AssertInTurn();
    const auto found = jobs_.find(request.run_id());
    CoordinatedJob* job = found != jobs_.end() ? found->second.get() : Live(request.job());
    if (stopping_) {
      AnswerLater<v1::SaveCheckpointReply>(turn, std::move(done), Stopping());
    } else if (job != nullptr) {
      job->SaveCheckpoint(request, deadline, std::move(done), turn);
    } else {
      AnswerLater<v1::SaveCheckpointReply>(
          turn, std::move(done),
          absl::NotFoundError(absl::StrCat("no live job '", request.job(), "'")));
    }
  });
}

}  // namespace weir
