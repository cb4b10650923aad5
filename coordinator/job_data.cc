// SPDX-License-Identifier: Apache-2.0
// What running workers ask: barriers, data, progress, checkpoints.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "coordinator/coordinated_job.h"
#include "coordinator/sync_groups.h"
#include "rpc/job_length.h"
#include "rpc/job_state.h"
#include "rpc/regime.h"

namespace weir {
namespace {

constexpr absl::Duration kKeepProgress = absl::Seconds(10);
constexpr size_t kLongestName = 256;
constexpr size_t kMostValues = 256;  // of one barrier

absl::Status CheckBarrier(const v1::BarrierRequest& request) {
  if (request.name().empty()) return absl::InvalidArgumentError("a barrier needs a name");
  if (request.name().size() > kLongestName) {
    return absl::InvalidArgumentError(
        absl::StrCat("a barrier's name has at most ", kLongestName, " bytes"));
  }
  if (request.values().size() > kMostValues) {
    return absl::InvalidArgumentError(
        absl::StrCat("barrier '", request.name(), "': at most ", kMostValues, " values"));
  }
  for (const auto& [key, value] : request.values()) {
    if (key.size() <= kLongestName) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "barrier '", request.name(), "': a value's name has at most ", kLongestName, " bytes"));
  }
  return absl::OkStatus();
}

}  // namespace

void CoordinatedJob::Barrier(const v1::BarrierRequest& request, absl::Time deadline,
                             BarrierTable::Done done, Turn& turn) {
  absl::Status status = roster_.Check(WorkerId{request.worker()});
  if (status.ok()) status = CheckAttempt(request.attempt());
  if (status.ok()) status = CheckBarrier(request);
  if (!status.ok()) {
    AnswerLater<v1::BarrierReply>(turn, std::move(done), status);
    return;
  }
  roster_.Touch(WorkerId{request.worker()}, turn.now());
  if (barriers_.Enter(request, deadline, std::move(done), roster_, turn)) {
    for (const Roster::Worker* member : roster_.Members()) roster_.Touch(member->id, turn.now());
    Keep();
  }
}

absl::StatusOr<v1::TakeRangesReply> CoordinatedJob::TakeRanges(const v1::TakeRangesRequest& request,
                                                               Turn& turn) {
  WEIR_RETURN_IF_ERROR(roster_.Check(WorkerId{request.worker()}));
  WEIR_RETURN_IF_ERROR(CheckAttempt(request.attempt()));
  if (!ranges_) {
    return absl::FailedPreconditionError(
        IsSync(spec()) ? "in sync the batches follow from the step; ranges are of async"
                       : "the job has no training set or no batch size to divide");
  }
  if (view_.state() != v1::JOB_STATE_RUNNING) {
    return absl::UnavailableError(absl::StrCat("the job does not run yet: ", view_.message()));
  }
  const RangeHolder holder = HolderOf(WorkerId{request.worker()});
  double rate = 0;
  for (const Roster::Worker* member : roster_.Members()) {
    if (HolderOf(member->id) == holder) rate += member->progress.samples_per_second();
  }
  const auto ahead = static_cast<uint64_t>(std::max(0.0, std::min(rate, 1e12)) * kSecondsAhead);
  const uint64_t held = ranges_->HeldExamples(holder);
  v1::TakeRangesRequest wanted = request;
  wanted.set_examples(std::max(request.examples(), ahead - std::min(ahead, held)));
  roster_.Touch(WorkerId{request.worker()}, turn.now());
  KeepRanges();
  const uint64_t holders = HasSyncGroups(spec()) ? NumSyncGroups(view_) : roster_.Members().size();
  return ranges_->Take(holder, wanted, holders);
}

absl::Status CoordinatedJob::ReportProgress(const v1::ReportProgressRequest& request,
                                            const Turn& turn) {
  WEIR_RETURN_IF_ERROR(roster_.Check(WorkerId{request.worker()}));
  WEIR_RETURN_IF_ERROR(CheckAttempt(request.attempt()));
  TakeReport(WorkerId{request.worker()}, request.progress(), turn);
  return absl::OkStatus();
}

void CoordinatedJob::TakeReport(WorkerId worker, const v1::Progress& progress, const Turn& turn) {
  v1::Progress known = progress;
  if (ranges_) {
    // The examples of a member of a sync group are its own share of what the group has consumed.
    const uint64_t own = HasSyncGroups(spec()) ? 0 : progress.examples();
    const uint64_t consumed = std::max(own, progress.consumed());
    // Kept with the next change: after a restart a few ranges may be trained twice.
    ranges_->Consume(HolderOf(worker), consumed);
    if (!HasSyncGroups(spec())) known.set_examples(consumed);
  }
  roster_.Report(worker, known, turn.now());
}

// Reports are not written each, but a coordinator that is restarted knows about how far the job is.
void CoordinatedJob::KeepProgress(const Turn& turn) {
  if (turn.now() < keep_progress_at_) return;
  keep_progress_at_ = turn.now() + kKeepProgress;
  const std::pair<uint64_t, uint64_t> done(StepsDone(), ExamplesDone());
  if (std::exchange(kept_progress_, done) != done) Keep();
}

absl::Status CoordinatedJob::ReportCut(const v1::ReportCutRequest& request, Turn& turn) {
  WEIR_RETURN_IF_ERROR(roster_.Check(WorkerId{request.worker()}));
  WEIR_RETURN_IF_ERROR(CheckAttempt(request.attempt()));
  saver_.ReportCut(request, turn);
  return absl::OkStatus();
}

void CoordinatedJob::SaveCheckpoint(const v1::SaveCheckpointRequest& request, absl::Time deadline,
                                    CheckpointSaver::Done done, Turn& turn) {
  if (!live()) {
    AnswerLater<v1::SaveCheckpointReply>(turn, std::move(done),
                                         absl::FailedPreconditionError(EndOf(view_)));
    return;
  }
  saver_.Request({request.metrics().begin(), request.metrics().end()}, deadline, std::move(done),
                 turn);
}

}  // namespace weir
