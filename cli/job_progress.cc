// SPDX-License-Identifier: Apache-2.0
#include "cli/job_progress.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/human.h"
#include "cli/reports.h"
#include "common/human_duration.h"
#include "rpc/job_length.h"
#include "rpc/regime.h"

namespace weir {
JobProgress ProgressOf(const v1::JobStatus& job) {
  JobProgress all;
  all.examples = job.view().resume().examples();
  all.step = job.view().resume().step();
  for (const v1::WorkerStatus& worker : job.workers()) {
    const v1::Progress& progress = worker.progress();
    all.examples += progress.examples();
    if (progress.step() == 0) continue;
    ++all.workers;
    all.step = std::max(all.step, progress.step());
    all.samples_per_second += progress.samples_per_second();
    all.staleness += progress.staleness();
    const auto loss = progress.metrics().find("loss");
    if (loss != progress.metrics().end()) all.loss += loss->second;
  }
  if (all.workers > 0) {
    all.staleness /= all.workers;
    all.loss /= all.workers;
  }
  const v1::JobSpec& spec = job.view().spec();
  const double examples = static_cast<double>(all.examples);
  if (spec.train_examples() > 0) all.epoch = examples / static_cast<double>(spec.train_examples());
  const auto length = static_cast<double>(TotalExamples(spec));
  if (length > 0) all.fraction = std::min(1.0, examples / length);
  return all;
}

std::string ProgressMeter::Line(const v1::JobStatus& job, absl::Time now) {
  const v1::JobView& view = job.view();
  if (view.state() != v1::JOB_STATE_RUNNING) {
    return absl::StrCat(JobStateName(view.state()), view.message().empty() ? "" : ": ",
                        view.message());
  }
  const JobProgress progress = ProgressOf(job);
  if (progress.workers == 0) return "running: no step yet";
  if (!first_ || first_->attempt != view.attempt()) {
    first_ = Mark{.time = now, .fraction = progress.fraction, .attempt = view.attempt()};
  }
  std::string epoch = absl::StrFormat("epoch %.2f", progress.epoch);
  if (view.spec().length().has_epochs()) {
    epoch += absl::StrFormat(" of %g", view.spec().length().epochs());
  }
  std::string line = absl::StrFormat(
      "%s  step %s  loss %.4f  %s samples/s", epoch, HumanCount(progress.step), progress.loss,
      HumanCount(static_cast<uint64_t>(progress.samples_per_second)));
  if (!IsSync(view.spec())) {
    line += absl::StrFormat("  staleness %.2f", progress.staleness);
  }
  const double done = progress.fraction - first_->fraction;
  if (done > 0) {
    line += "  " + HumanDuration((now - first_->time) * ((1 - progress.fraction) / done)) + " left";
  }
  return line;
}

}  // namespace weir
