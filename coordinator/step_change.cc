// SPDX-License-Identifier: Apache-2.0
#include "coordinator/step_change.h"

#include <algorithm>
#include <utility>

#include "coordinator/coordinated_job.h"
#include "rpc/errors.h"

namespace weir {
namespace {

constexpr absl::Duration kCallTimeout = absl::Seconds(1);
constexpr uint64_t kMostRounds = 255;  // of WireId

}  // namespace

StepChange::StepChange(const JobContext& context, Options options, Finished finished)
    : context_(context),
      options_(std::move(options)),
      finished_(std::move(finished)),
      step_(options_.first_step) {}

template <typename Fn>
std::function<void(absl::Status)> StepChange::Reenter(Fn fn) const {
  return
      [enter = context_.enter, run = options_.run_id, id = options_.id, fn](absl::Status status) {
        enter(run, [id, fn, status = std::move(status)](CoordinatedJob& job, Turn& turn) {
          StepChange* change = job.FindChange(id);
          if (change != nullptr) fn(*change, job, turn, status);
        });
      };
}

void StepChange::Start(Turn& turn) {
  Prepare(turn);
}

void StepChange::Prepare(Turn& turn) {
  ++round_;
  waiting_for_ = std::max<size_t>(1, options_.servers.size());
  failure_ = absl::OkStatus();
  highest_begun_.reset();
  const auto answer =
      Reenter([round = round_](StepChange& change, CoordinatedJob& job, Turn& later,
                               const absl::Status& s) { change.OnPrepared(job, later, round, s); });
  if (options_.servers.empty()) {
    turn.Later([&executor = context_.executor, answer] {
      executor.Run([answer] { answer(absl::OkStatus()); });
    });
  }
  v1::PrepareStepRequest request;
  request.set_term(context_.term);
  request.set_run_id(options_.run_id);
  request.set_attempt(options_.attempt);
  request.set_change_id(WireId());
  request.set_step(step_);
  request.set_sync_group(options_.sync_group);
  for (const v1::ServerInfo& server : options_.servers) {
    turn.Later([&transport = context_.transport, server, request, answer] {
      transport.PrepareStep(
          server, request, kCallTimeout,
          [answer](absl::StatusOr<v1::PrepareStepReply> reply) { answer(reply.status()); });
    });
  }
}

void StepChange::OnPrepared(CoordinatedJob& job, Turn& turn, uint64_t round,
                            const absl::Status& status) {
  if (round != round_ || committing_) return;
  const absl::optional<uint64_t> begun = HighestBegunStep(status);
  if (begun) {
    highest_begun_ = std::max(highest_begun_.value_or(0), *begun);
  } else if (!status.ok() && failure_.ok()) {
    failure_ = status;
  }
  if (--waiting_for_ > 0) return;
  if (!failure_.ok()) {
    AbortAll(turn);
    Finish(job, turn, failure_);
  } else if (!highest_begun_) {
    Commit(job, turn);
  } else if (turn.now() >= options_.deadline || round_ == kMostRounds) {
    AbortAll(turn);
    Finish(job, turn, absl::AbortedError("the workers' steps were faster than the change"));
  } else {
    // The next step may begin while we ask, so each try leaves more room.
    step_ = std::max(step_, *highest_begun_ + 1 + margin_);
    margin_ = 2 * margin_ + 1;
    AbortAll(turn);
    Prepare(turn);
  }
}

void StepChange::Commit(CoordinatedJob& job, Turn& turn) {
  committing_ = true;
  waiting_for_ = std::max<size_t>(1, options_.servers.size());
  const auto answer = Reenter([](StepChange& change, CoordinatedJob& job, Turn& later,
                                 const absl::Status& s) { change.OnCommitted(job, later, s); });
  if (options_.servers.empty()) {
    turn.Later([&executor = context_.executor, answer] {
      executor.Run([answer] { answer(absl::OkStatus()); });
    });
  }
  v1::CommitStepRequest request;
  request.set_term(context_.term);
  request.set_run_id(options_.run_id);
  request.set_attempt(options_.attempt);
  request.set_change_id(WireId());
  request.set_step(step_);
  request.set_cut(options_.cut);
  if (options_.view_at) *request.mutable_view() = options_.view_at(job, step_);
  for (const v1::ServerInfo& server : options_.servers) {
    turn.Later([&transport = context_.transport, server, request, answer] {
      transport.CommitStep(
          server, request, kCallTimeout,
          [answer](absl::StatusOr<v1::CommitStepReply> reply) { answer(reply.status()); });
    });
  }
}

void StepChange::OnCommitted(CoordinatedJob& job, Turn& turn, const absl::Status& status) {
  if (!status.ok() && failure_.ok()) failure_ = status;
  if (--waiting_for_ > 0) return;
  if (!failure_.ok()) AbortAll(turn);
  Finish(job, turn, failure_);
}

void StepChange::AbortAll(Turn& turn) {
  v1::AbortStepRequest request;
  request.set_term(context_.term);
  request.set_run_id(options_.run_id);
  request.set_attempt(options_.attempt);
  request.set_change_id(WireId());
  for (const v1::ServerInfo& server : options_.servers) {
    turn.Later([&transport = context_.transport, server, request] {
      transport.AbortStep(server, request, kCallTimeout, [](absl::StatusOr<v1::AbortStepReply>) {
        // A server that is not reached lets go by itself when its hold runs out.
      });
    });
  }
}

void StepChange::Finish(CoordinatedJob& job, Turn& turn, const absl::Status& status) {
  const Result result{status, step_, !status.ok() && committing_};
  const Finished finished = finished_;
  job.EndChange(turn);  // ends this object
  finished(job, turn, result);
}

}  // namespace weir
