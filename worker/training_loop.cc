// SPDX-License-Identifier: Apache-2.0
#include "worker/training_loop.h"

#include <spdlog/spdlog.h>

#include "common/status_macros.h"
#include "rpc/regime.h"
#include "worker/training_attempt.h"

namespace weir {
namespace {

// How often a wait for the others is put into the log, and how often an interruption is looked for.
constexpr absl::Duration kTellEvery = absl::Seconds(10);
constexpr absl::Duration kLookEvery = absl::Milliseconds(250);
// How long a rollback may take to be told: a lease and the coordinator's own restart.
constexpr absl::Duration kRollbackTold = absl::Minutes(2);

}  // namespace

TrainingLoop::TrainingLoop(TrainingParts parts)
    : parts_(std::move(parts)), created_(parts_.clock.Now()) {}

absl::StatusOr<RunSummary> TrainingLoop::Run() {
  absl::StatusOr<RunSummary> summary = TrainToTheEnd();
  const JobInfo info = parts_.session.Info();
  const absl::Time ended = parts_.clock.Now();
  if (!summary.ok() || summary->left.empty()) {
    const absl::Status left =
        parts_.session.Leave(summary.ok(), std::string(summary.status().message()));
    if (!left.ok()) spdlog::warn("leaving the job: {}", left.ToString());
  }
  if (!summary.ok()) return summary;
  summary->name = parts_.spec.name();
  summary->regime = RegimeText(parts_.spec);
  summary->servers = info.servers;
  summary->lost_steps = info.lost_steps;
  summary->seed = parts_.spec.seed();
  summary->wall_seconds = absl::ToDoubleSeconds(ended - created_);
  return summary;
}

absl::StatusOr<RunSummary> TrainingLoop::TrainToTheEnd() {
  WEIR_RETURN_IF_ERROR(parts_.session.Declare(parts_.runner.declaration()));
  while (true) {
    WEIR_ASSIGN_OR_RETURN(const JobInfo info, WaitUntilReady());
    if (!info.checkpoint_id.empty()) {
      spdlog::info("attempt {} resumes from {} (step {})", info.attempt, info.checkpoint_id,
                   info.resume_step);
    }
    if (info.state == JobState::kRunning && !info.message.empty()) spdlog::warn("{}", info.message);
    absl::StatusOr<RunSummary> summary = TrainingAttempt(parts_, info).Run();
    if (!absl::IsAborted(summary.status())) return summary;
    spdlog::warn("rolled back attempt={}: {}", info.attempt, summary.status().ToString());
    WEIR_RETURN_IF_ERROR(AwaitNewAttempt(info.attempt, summary.status()));
  }
}

absl::StatusOr<JobInfo> TrainingLoop::WaitUntilReady() {
  const absl::Time began = parts_.clock.Now();
  const absl::Time deadline = began + absl::Milliseconds(parts_.spec.step_timeout_ms());
  absl::Time tell_at = began + kTellEvery;
  while (true) {
    WEIR_RETURN_IF_ERROR(CheckNotInterrupted(parts_));
    absl::StatusOr<JobInfo> info = parts_.session.WaitUntilReady(kLookEvery);
    const absl::Time now = parts_.clock.Now();
    if (!absl::IsDeadlineExceeded(info.status()) || now >= deadline) return info;
    if (now < tell_at) continue;
    tell_at += kTellEvery;
    spdlog::info("waiting for {}: {}",
                 absl::FormatDuration(absl::Floor(now - began, absl::Seconds(1))),
                 std::string(info.status().message()));
  }
}

absl::Status TrainingLoop::AwaitNewAttempt(uint64_t attempt, const absl::Status& cause) {
  const absl::Time deadline = parts_.clock.Now() + kRollbackTold;
  while (true) {
    WEIR_RETURN_IF_ERROR(CheckNotInterrupted(parts_));
    const absl::Status other = parts_.session.WaitForOtherAttempt(attempt, kLookEvery);
    if (other.ok() || absl::IsFailedPrecondition(other)) return other;
    if (!absl::IsDeadlineExceeded(other) || parts_.clock.Now() >= deadline) return cause;
  }
}

}  // namespace weir
