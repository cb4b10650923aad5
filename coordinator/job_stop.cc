// SPDX-License-Identifier: Apache-2.0
// Jobs that end early: stopped by command, or left by all their workers.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/coordinated_job.h"
#include "coordinator/job_spec_check.h"
#include "coordinator/sync_groups.h"
#include "coordinator/turn_log.h"
#include "rpc/protocol.h"
#include "rpc/regime.h"
#include "rpc/run_again.h"

namespace weir {
namespace {

constexpr absl::Duration kOrphanSaveTime = absl::Minutes(5);
// How long sync groups may take, one after another, to agree on their last steps.
constexpr absl::Duration kSettleTime = absl::Seconds(20);

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
  UnsettleStop(view_);
  settle_by_ = turn.now() + kSettleTime;
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

// All who are in step stop before the same one. Of sync groups one after another.
void CoordinatedJob::SettleStop(Turn& turn) {
  const absl::optional<uint32_t> sync_group = UnsettledStop(view_);
  if (!view_.stop() || !sync_group || change_ != nullptr || saver_.cutting() ||
      view_.state() != v1::JOB_STATE_RUNNING) {
    return;
  }
  StepChange::Options options;
  options.first_step = HighestStep(*sync_group) + 1;
  options.sync_group = *sync_group;
  options.deadline = turn.now() + kStepHoldTime;
  options.view_at = [](CoordinatedJob& job, uint64_t) { return job.ViewWith({}, {}); };
  StartChange(
      std::move(options),
      [group = *sync_group](CoordinatedJob& job, Turn& later, const StepChange::Result& result) {
        job.OnStopSettled(group, result, later);
      },
      turn);
}

void CoordinatedJob::OnStopSettled(uint32_t sync_group, const StepChange::Result& result,
                                   Turn& turn) {
  const bool undisturbed = last_version_ == admitting_version_;
  // The servers make one change at a time, and that of the group before may be to come.
  const bool again = HasSyncGroups(spec()) && turn.now() < settle_by_;
  if (again && !result.status.ok() && !result.perhaps_committed) return;
  last_generation_ = std::max(last_generation_, view_.generation());
  if (!undisturbed || !result.status.ok()) ++last_generation_;
  ChangeView().set_generation(last_generation_);
  if (result.status.ok() && !undisturbed) return;  // a newer view was published: once more
  if (!result.status.ok() && again) return;
  // Without an agreement each stops after its current step.
  const uint64_t step = result.status.ok() ? result.step + StepChange::kKnownAfter : 0;
  SettleStopOf(sync_group, step, view_);
  LogLater(turn, spdlog::level::info, "workers stop job={} sync_group={} before_step={}: {}",
           name(), sync_group, step, result.status.ToString());
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
