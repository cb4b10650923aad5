// SPDX-License-Identifier: Apache-2.0
// Jobs that end early: stopped by command, or left by all their workers.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/coordinated_job.h"
#include "coordinator/job_spec_check.h"
#include "coordinator/turn_log.h"
#include "rpc/protocol.h"
#include "rpc/regime.h"
#include "rpc/run_again.h"

namespace weir {
namespace {

constexpr absl::Duration kOrphanSaveTime = absl::Minutes(5);

}  // namespace

void CoordinatedJob::Stop(const std::string& reason, Turn& turn) {
  const std::string message =
      absl::StrCat("stopped by command", reason.empty() ? "" : ": ", reason);
  LogLater(turn, spdlog::level::info, "job stops job={} reason=\"{}\"", name(), reason);
  if (view_.state() != v1::JOB_STATE_RUNNING) {
    End(v1::JOB_STATE_STOPPED, message, turn);
    return;
  }
  if (view_.stop()) return;
  ChangeView().set_stop(true);
  view_.set_stop_step(IsSync(spec()) ? kStopNotSettled : 0);
  view_.set_message(message);
  if (roster_.Members().empty()) return AfterDeparture(message, turn);
  SettleStop(turn);
}

absl::Status CoordinatedJob::CheckMayBeForgotten() const {
  if (live()) return absl::OkStatus();
  // One that was to go on from a checkpoint of the name leaves it behind, however it has ended.
  const bool any_run = !spec().resume().empty();
  SharedManifest newest;
  for (const auto& manifest : context_.checkpoints->List(name())) {
    if (!manifest.ok() || (!any_run && (*manifest)->run_id() != run_id())) continue;
    newest = *manifest;
    break;
  }
  return weir::CheckMayBeForgotten(view_, newest.get());
}

// In `sync` all workers stop before the same step.
void CoordinatedJob::SettleStop(Turn& turn) {
  if (!view_.stop() || view_.stop_step() != kStopNotSettled || change_ != nullptr ||
      saver_.cutting() || view_.state() != v1::JOB_STATE_RUNNING) {
    return;
  }
  StepChange::Options options;
  options.first_step = roster_.highest_step() + 1;
  options.deadline = turn.now() + kStepHoldTime;
  options.view_at = [](CoordinatedJob& job, uint64_t) { return job.ViewWith({}, {}); };
  StartChange(
      std::move(options),
      [](CoordinatedJob& job, Turn& later, const StepChange::Result& result) {
        job.OnStopSettled(result, later);
      },
      turn);
}

void CoordinatedJob::OnStopSettled(const StepChange::Result& result, Turn& turn) {
  const bool undisturbed = last_version_ == admitting_version_;
  last_generation_ = std::max(last_generation_, view_.generation());
  if (!undisturbed || !result.status.ok()) ++last_generation_;
  ChangeView().set_generation(last_generation_);
  if (result.status.ok() && !undisturbed) return;  // a newer view was published: once more
  // Without an agreement each stops after its current step.
  view_.set_stop_step(result.status.ok() ? result.step + StepChange::kKnownAfter : 0);
  LogLater(turn, spdlog::level::info, "workers stop job={} before_step={}: {}", name(),
           view_.stop_step(), result.status.ToString());
}

// Nobody is left, for too long or because the job was stopped: what it has done is saved if it
// asked for that. A stopped job is saved here and not by a worker, which would wait for a cut while
// another is in a step that waits for it.
void CoordinatedJob::TickOrphan(Turn& turn) {
  if (!roster_.empty() || ending_orphan_) return;
  if (!view_.stop() && turn.now() - orphaned_at_ < OrphanTtl(spec())) return;
  ending_orphan_ = true;
  const auto end = [](CoordinatedJob& job, Turn& later) {
    job.ending_orphan_ = false;
    if (!job.live() || !job.roster_.empty()) return;  // somebody has come meanwhile
    if (job.view_.stop()) {
      job.End(v1::JOB_STATE_STOPPED, job.view_.message(), later);
    } else {
      job.End(v1::JOB_STATE_FAILED, "orphaned: no worker came back", later);
    }
  };
  const v1::CheckpointSpec& wanted = spec().checkpoint();
  const bool saves = wanted.at_end() || wanted.every().unit_case() != v1::Extent::UNIT_NOT_SET;
  if (!saves || view_.state() != v1::JOB_STATE_RUNNING || !saver_.has_news()) {
    end(*this, turn);
    return;
  }
  saver_.Request({}, turn.now() + kOrphanSaveTime,
                 Reenter<absl::StatusOr<v1::SaveCheckpointReply>>(
                     [end](CoordinatedJob& job, Turn& later, const auto&) { end(job, later); }),
                 turn);
}

}  // namespace weir
