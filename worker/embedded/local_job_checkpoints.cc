// SPDX-License-Identifier: Apache-2.0
// LocalJobSession's checkpoints: when one is due, its cut, and the way back.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "common/status_macros.h"
#include "rpc/resume_point.h"
#include "worker/embedded/local_job_session.h"

namespace weir {

absl::Status LocalJobSession::Restore() {
  std::unique_ptr<v1::Manifest> source;
  bool any = false;
  v1::JobView run;
  {
    MutexLock lock(mutex_);
    source = std::move(source_);
    any = view_.spec().resume() == "auto";
    if (goes_on_) run = view_;
  }
  for (;;) {
    const absl::Status restored = RestoreFrom(*source);
    if (!absl::IsDataLoss(restored) || (!any && run.run_id() == 0)) return restored;
    spdlog::warn("checkpoint {} is damaged, the one before it is taken: {}", source->id(),
                 std::string(restored.message()));
    const std::string damaged = source->id();
    WEIR_ASSIGN_OR_RETURN(source, run.run_id() != 0 ? checkpoints_->NewestOf(run, damaged)
                                                    : checkpoints_->Source(damaged));
    if (source == nullptr) return restored;
    MutexLock lock(mutex_);
    view_.set_attempt(view_.attempt() + 1);
    WEIR_RETURN_IF_ERROR(Place(source.get()));
  }
}

absl::Status LocalJobSession::RestoreFrom(const v1::Manifest& source) {
  v1::JobView view;
  {
    MutexLock lock(mutex_);
    *view_.mutable_resume() = ResumePointOf(source, checkpoints_->spec());
    const uint64_t step = view_.resume().step();
    view_.mutable_members(0)->set_first_step(step);
    ranges_.Start(LocalCheckpoints::DataOf(source, ranges_.epoch_examples()));
    // Intervals count from here: steps go on, examples begin anew with each attempt.
    saved_at_ = {};
    saved_at_.step = step;
    view = Change(v1::JOB_STATE_RESTORING);
  }
  WEIR_RETURN_IF_ERROR(Publish(view));
  WEIR_RETURN_IF_ERROR(checkpoints_->Restore(*server_, view, source));
  {
    MutexLock lock(mutex_);
    view = Change(v1::JOB_STATE_RUNNING);
  }
  return Publish(view);
}

bool LocalJobSession::IsDue(const Progress& progress) const {
  const v1::Extent& every = view_.spec().checkpoint().every();
  const uint64_t examples = progress.examples - saved_at_.examples;
  switch (every.unit_case()) {
    case v1::Extent::kSteps:
      return progress.step - saved_at_.step >= every.steps();
    case v1::Extent::kExamples:
      return examples >= every.examples();
    case v1::Extent::kEpochs:
      return static_cast<double>(examples) >=
             every.epochs() * static_cast<double>(view_.spec().train_examples());
    case v1::Extent::kSeconds:
      return clock_.Now() - saved_at_time_ >= absl::Seconds(every.seconds());
    default:
      return false;
  }
}

void LocalJobSession::ReportProgress(const Progress& progress) {
  if (checkpoints_ == nullptr) return;
  {
    MutexLock lock(mutex_);
    // A save that takes longer than the interval is not followed by another at once.
    if (saving_ || view_.state() != v1::JOB_STATE_RUNNING || !IsDue(progress)) return;
    saved_at_ = progress;
    saved_at_time_ = clock_.Now();
  }
  background_->Run([this, metrics = progress.metrics] {
    const absl::StatusOr<std::string> id = SaveCheckpoint(metrics);
    if (!id.ok()) spdlog::warn("checkpoint not saved: {}", id.status().ToString());
  });
}

void LocalJobSession::OnCut(const CutReport& report) {
  MutexLock lock(mutex_);
  cut_ = report;
}

absl::StatusOr<LocalCheckpoints::Cut> LocalJobSession::TakeCut() {
  LocalCheckpoints::Cut cut;
  {
    MutexLock lock(mutex_);
    if (view_.state() != v1::JOB_STATE_RUNNING) {
      return absl::FailedPreconditionError("there is nothing to save: the job does not run");
    }
    view_.set_cut(view_.cut() + 1);
    cut.view = Change(v1::JOB_STATE_RUNNING);
  }
  // The client marks the cut before this returns.
  WEIR_RETURN_IF_ERROR(Publish(cut.view));
  MutexLock lock(mutex_);
  cut.step = view_.resume().step();
  uint64_t consumed = 0;
  if (cut_.cut.cut == cut.view.cut()) {
    consumed = cut_.cut.consumed;
    for (size_t group = 0; group < cut_.cut.last_sequence.size(); ++group) {
      v1::CutMark& mark = cut.marks.emplace_back();
      mark.set_worker(static_cast<uint64_t>(worker_));
      mark.set_group(static_cast<uint32_t>(group));
      mark.set_last_sequence(cut_.cut.last_sequence[group]);
    }
    // A step may push a group more than once.
    cut.step = std::max(cut.step, cut_.cut.next_step);
  }
  cut.data = ranges_.After(consumed);
  cut.epoch_examples = ranges_.epoch_examples();
  return cut;
}

absl::StatusOr<std::string> LocalJobSession::SaveCheckpoint(
    const std::map<std::string, double>& metrics) {
  if (checkpoints_ == nullptr) {
    return absl::FailedPreconditionError("no checkpoint can be saved: the job has no data folder");
  }
  {
    MutexLock lock(mutex_);
    while (saving_) saved_.Wait(mutex_);
    saving_ = true;
  }
  absl::StatusOr<LocalCheckpoints::Cut> cut = TakeCut();
  if (cut.ok()) cut->metrics = metrics;
  absl::StatusOr<std::string> id =
      cut.ok() ? checkpoints_->Save(*server_, *cut) : absl::StatusOr<std::string>(cut.status());
  MutexLock lock(mutex_);
  saving_ = false;
  if (id.ok()) saved_step_ = cut->step;
  saved_.NotifyOne();
  return id;
}

void LocalJobSession::SaveStopped() {
  v1::CheckpointSpec wanted;
  {
    MutexLock lock(mutex_);
    wanted = view_.spec().checkpoint();
  }
  if (!wanted.at_end() && wanted.every().unit_case() == v1::Extent::UNIT_NOT_SET) {
    spdlog::warn("stopped; nothing is saved: the job asks for no checkpoint");
    return;
  }
  const absl::StatusOr<std::string> id = SaveCheckpoint({});
  if (!id.ok()) {
    spdlog::error("stopped; nothing is saved: {}", std::string(id.status().message()));
    return;
  }
  MutexLock lock(mutex_);
  spdlog::info(
      "stopped at step {}; checkpoint {} is saved: the same command with --set resume=auto goes on "
      "from it",
      saved_step_, *id);
}

}  // namespace weir
