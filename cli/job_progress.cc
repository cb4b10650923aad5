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

// In `sync` all are at one step; else each counts its own, and the examples tell the job's.
void CountSteps(const v1::JobStatus& job, JobProgress& progress) {
  const v1::JobSpec& spec = job.view().spec();
  const v1::ResumePoint& resume = job.view().resume();
  progress.step = resume.step();
  progress.examples = resume.examples();
  for (const v1::WorkerStatus& worker : job.workers()) {
    progress.examples += worker.progress().examples();
    if (IsSync(spec) || !DividesData(spec)) {
      progress.step = std::max(progress.step, worker.progress().step());
    }
  }
  if (!DividesData(spec)) return;
  if (IsSync(spec)) {
    progress.examples = ExamplesAfterSteps(progress.step, spec);
  } else {
    progress.step += StepsOver(progress.examples, spec) - StepsOver(resume.examples(), spec);
  }
}

void Derive(const v1::JobSpec& spec, JobProgress& progress) {
  const auto examples = static_cast<double>(progress.examples);
  if (spec.train_examples() > 0) {
    progress.epoch = examples / static_cast<double>(spec.train_examples());
  }
  const auto length = static_cast<double>(IsSync(spec) ? ExamplesAfterSteps(TotalSteps(spec), spec)
                                                       : TotalExamples(spec));
  if (length > 0 && progress.samples_per_second > 0) {
    progress.left = absl::Seconds(std::max(0.0, length - examples) / progress.samples_per_second);
  }
}

std::string EpochOf(const JobProgress& progress, const v1::JobSpec& spec) {
  const std::string epoch = absl::StrFormat("epoch %.2f", progress.epoch);
  if (!spec.length().has_epochs()) return epoch;
  return absl::StrCat(epoch, " of ", absl::StrFormat("%g", spec.length().epochs()));
}

}  // namespace

JobProgress ProgressOf(const v1::JobStatus& job) {
  JobProgress all;
  CountSteps(job, all);
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
  Derive(job.view().spec(), all);
  return all;
}

std::string ProgressMeter::Line(const v1::JobStatus& job) {
  const v1::JobView& view = job.view();
  if (view.state() != v1::JOB_STATE_RUNNING) {
    return absl::StrCat(JobStateName(view), view.message().empty() ? "" : ": ", view.message());
  }
  JobProgress progress = ProgressOf(job);
  if (line_attempt_ != view.attempt()) step_ = examples_ = 0;
  line_attempt_ = view.attempt();
  progress.step = step_ = std::max(step_, progress.step);
  progress.examples = examples_ = std::max(examples_, progress.examples);
  Derive(view.spec(), progress);
  if (progress.step == 0) return "running: no step yet";
  std::string line =
      absl::StrCat(EpochOf(progress, view.spec()), "  step ", HumanCount(progress.step));
  if (progress.loss) absl::StrAppendFormat(&line, "  loss %.4f", *progress.loss);
  if (progress.workers == 0) return line + "  no worker has reported yet";
  absl::StrAppend(&line, "  ", HumanCount(static_cast<uint64_t>(progress.samples_per_second)),
                  " samples/s");
  if (!IsSync(view.spec())) absl::StrAppendFormat(&line, "  staleness %.2f", progress.staleness);
  if (progress.left) absl::StrAppend(&line, "  ", HumanDuration(*progress.left), " left");
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
