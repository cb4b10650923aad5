// SPDX-License-Identifier: Apache-2.0
#include "cli/job_progress.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/human.h"
#include "cli/reports.h"
#include "common/human_duration.h"
#include "rpc/job_length.h"
#include "rpc/regime.h"

namespace weir {
namespace {

bool HasReported(const v1::Progress& progress) {
  return progress.examples() > 0 || !progress.metrics().empty();
}

// At their present speed; none where it or the length is unknown.
std::optional<absl::Duration> TimeLeft(const WorkersProgress& progress, uint64_t examples,
                                       const v1::JobSpec& spec) {
  const auto length = static_cast<double>(IsSync(spec) ? ExamplesAfterSteps(TotalSteps(spec), spec)
                                                       : TotalExamples(spec));
  if (length <= 0 || progress.samples_per_second <= 0) return std::nullopt;
  const double left = std::max(0.0, length - static_cast<double>(examples));
  return absl::Seconds(left / progress.samples_per_second);
}

// "epoch 1.25 of 3"; empty where the training set is unknown.
std::string EpochOf(uint64_t examples, const v1::JobSpec& spec) {
  if (spec.train_examples() == 0) return "";
  const std::string epoch = absl::StrFormat(
      "epoch %.2f", static_cast<double>(examples) / static_cast<double>(spec.train_examples()));
  if (!spec.length().has_epochs()) return epoch;
  return absl::StrCat(epoch, " of ", absl::StrFormat("%g", spec.length().epochs()));
}

}  // namespace

WorkersProgress ProgressOfWorkers(const v1::JobStatus& job) {
  WorkersProgress all;
  double losses = 0;
  int with_loss = 0;
  for (const v1::WorkerStatus& worker : job.workers()) {
    const v1::Progress& progress = worker.progress();
    if (!HasReported(progress)) continue;
    ++all.workers;
    all.samples_per_second += progress.samples_per_second();
    all.staleness += progress.staleness();
    const auto loss = progress.metrics().find("loss");
    if (loss == progress.metrics().end()) continue;
    losses += loss->second;
    ++with_loss;
  }
  if (all.workers > 0) all.staleness /= all.workers;
  if (with_loss > 0) all.loss = losses / with_loss;
  return all;
}

std::string ProgressMeter::Line(const v1::JobStatus& job) {
  const v1::JobView& view = job.view();
  if (view.state() != v1::JOB_STATE_RUNNING) {
    return absl::StrCat(JobStateName(view), view.message().empty() ? "" : ": ", view.message());
  }
  if (line_attempt_ != view.attempt()) step_ = examples_ = 0;
  line_attempt_ = view.attempt();
  step_ = std::max(step_, job.step());
  examples_ = std::max(examples_, job.examples());
  if (step_ == 0) return "running: no step yet";
  const WorkersProgress progress = ProgressOfWorkers(job);
  const std::string epoch = EpochOf(examples_, view.spec());
  std::string line = absl::StrCat(epoch, epoch.empty() ? "" : "  ", "step ", HumanCount(step_));
  if (progress.loss) absl::StrAppendFormat(&line, "  loss %.4f", *progress.loss);
  if (progress.workers == 0) return line + "  no worker has reported yet";
  absl::StrAppend(&line, "  ", HumanCount(static_cast<uint64_t>(progress.samples_per_second)),
                  " samples/s");
  if (!IsSync(view.spec())) absl::StrAppendFormat(&line, "  staleness %.2f", progress.staleness);
  const auto left = TimeLeft(progress, examples_, view.spec());
  if (left) absl::StrAppend(&line, "  ", HumanDuration(*left), " left");
  return line;
}

std::optional<std::string> ProgressMeter::Rollback(const v1::JobStatus& job) {
  const v1::JobView& view = job.view();
  const uint64_t before = std::exchange(attempt_, view.attempt());
  const uint64_t lost_before = std::exchange(lost_steps_, view.resume().lost_steps());
  if (before == 0 || before == view.attempt()) return std::nullopt;
  const v1::ResumePoint& resume = view.resume();
  // A coordinator that was restarted counts less than what has been seen here.
  const uint64_t lost = std::max(resume.lost_steps() - std::min(lost_before, resume.lost_steps()),
                                 step_ - std::min(step_, resume.step()));
  return absl::StrCat("Rolled back: the job goes on from ",
                      resume.checkpoint_id().empty()
                          ? "its first values"
                          : absl::StrCat("checkpoint ", resume.checkpoint_id(), " (step ",
                                         HumanCount(resume.step()), ")"),
                      "; ", HumanCount(lost, "step"), " undone.");
}

}  // namespace weir
