// SPDX-License-Identifier: Apache-2.0
#include "worker/progress_log.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/human_duration.h"
#include "worker/step_json.h"

namespace weir {
namespace {

using Json = nlohmann::ordered_json;

double UnixSeconds(absl::Time time) {
  return absl::ToDoubleSeconds(time - absl::UnixEpoch());
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProgressLog>> ProgressLog::Create(const Options& options,
                                                                 JobSession& session,
                                                                 Clock& clock) {
  auto log = absl::WrapUnique(new ProgressLog(options, session, clock));
  log->created_ = clock.Now();
  log->Begin(0);
  if (options.metrics_file.empty()) return log;
  if (options.start_anew) std::ofstream(options.metrics_file, std::ios::trunc);
  // Each line goes to the end that the file then has, wherever other workers have brought it.
  log->file_.open(options.metrics_file, std::ios::app);
  if (!log->file_) {
    return absl::UnavailableError(
        absl::StrCat(options.metrics_file, ": cannot be opened for writing"));
  }
  return log;
}

ProgressLog::~ProgressLog() {
  if (line_open_) std::fputc('\n', options_.display);
}

void ProgressLog::Begin(double position) {
  began_ = interval_began_ = clock_.Now();
  began_position_ = position;
  interval_ = {};
  examples_ = 0;
}

void ProgressLog::Add(const StepRecord& record) {
  last_ = record;
  examples_ += record.examples;
  ++interval_.steps;
  interval_.examples += record.examples;
  interval_.staleness += static_cast<double>(record.staleness);
  interval_.seconds += record.seconds;
  for (const auto& [name, value] : record.metrics) {
    interval_.weighted[name] += value * static_cast<double>(record.examples);
    interval_.weights[name] += static_cast<double>(record.examples);
  }
  if (interval_.steps >= options_.log_every) Report();
}

void ProgressLog::Flush() {
  if (interval_.steps > 0) Report();
}

void ProgressLog::Report() {
  const absl::Time now = clock_.Now();
  const Progress progress = TakeInterval(now);
  session_.ReportProgress(progress);
  WriteInterval(progress, now);
  ShowInterval(progress);
}

Progress ProgressLog::TakeInterval(absl::Time now) {
  const double seconds = std::max(1e-9, absl::ToDoubleSeconds(now - interval_began_));
  Progress progress;
  progress.step = last_.step + 1;
  progress.examples = examples_;
  progress.samples_per_second = static_cast<double>(interval_.examples) / seconds;
  progress.staleness = interval_.staleness / static_cast<double>(interval_.steps);
  progress.late_pushes = last_.late_pushes;
  progress.step_seconds = interval_.seconds.DividedBy(static_cast<double>(interval_.steps));
  if (interval_.examples > 0) {
    for (const auto& [name, sum] : interval_.weighted) {
      const double weight = interval_.weights[name];
      if (weight > 0) progress.metrics[name] = sum / weight;
    }
    if (!progress.metrics.empty()) last_metrics_ = progress.metrics;
  }
  interval_ = {};
  interval_began_ = now;
  return progress;
}

double ProgressLog::EpochOf(double position) const {
  return position / static_cast<double>(options_.train_examples);
}

void ProgressLog::WriteInterval(const Progress& progress, absl::Time now) {
  Json json = {
      {"time", UnixSeconds(clock_.WallNow())}, {"seconds", absl::ToDoubleSeconds(now - created_)},
      {"worker", session_.Info().rank},        {"step", progress.step},
      {"examples", progress.examples},         {"epoch", EpochOf(last_.position)}};
  for (const auto& [name, value] : progress.metrics) json[name] = value;
  json["samples_per_second"] = progress.samples_per_second;
  json["staleness"] = progress.staleness;
  if (options_.backup_workers) json["late_pushes"] = progress.late_pushes;
  json["step_seconds"] = StepJson(progress.step_seconds);
  json["step_shares"] = StepJson(progress.step_seconds.DividedBy(progress.step_seconds.total()));
  WriteLine(json.dump());
}

void ProgressLog::ShowInterval(const Progress& progress) {
  // In `sync` all are at the same step; else it is this worker's alone.
  std::string line = absl::StrFormat("epoch %.2f of %.4g  %s %d", EpochOf(last_.position),
                                     EpochOf(options_.total_examples),
                                     options_.sync ? "step" : "own step", progress.step);
  for (const char* name : {"loss", "accuracy"}) {
    const auto found = progress.metrics.find(name);
    if (found != progress.metrics.end())
      absl::StrAppendFormat(&line, "  %s %.4f", name, found->second);
  }
  absl::StrAppendFormat(&line, "  %.0f samples/s", progress.samples_per_second);
  if (!options_.sync) absl::StrAppendFormat(&line, "  staleness %.1f", progress.staleness);
  if (options_.backup_workers) absl::StrAppendFormat(&line, "  %d late", progress.late_pushes);
  Show(absl::StrCat(line, TimeLeft()));
}

std::string ProgressLog::TimeLeft() const {
  const double done = last_.position - began_position_;
  const double left = options_.total_examples - last_.position;
  if (done <= 0 || left < 0) return "";
  const double seconds = absl::ToDoubleSeconds(clock_.Now() - began_);
  return absl::StrCat("  ", HumanDuration(absl::Seconds(seconds * left / done)), " left");
}

void ProgressLog::AddEvaluation(uint64_t step, double position, const Metrics& metrics) {
  const double epoch = EpochOf(position);
  Json json = {{"time", UnixSeconds(clock_.WallNow())},
               {"seconds", absl::ToDoubleSeconds(clock_.Now() - created_)},
               {"worker", session_.Info().rank},
               {"step", step},
               {"epoch", epoch}};
  std::string line = absl::StrFormat("epoch %.2f  test", epoch);
  for (const auto& [name, value] : metrics) {
    json["test_" + name] = value;
    absl::StrAppendFormat(&line, "  %s %.4f", name, value);
  }
  WriteLine(json.dump());
  Show(line);
  if (line_open_) std::fputc('\n', options_.display);
  line_open_ = false;
}

void ProgressLog::WriteLine(const std::string& json) {
  if (!file_.is_open()) return;
  // One write a line: the workers of one machine may share the file.
  file_ << json + "\n" << std::flush;
}

void ProgressLog::Show(const std::string& line) {
  if (options_.display == nullptr) return;
  if (options_.terminal) {
    std::fprintf(options_.display, "\r\033[K%s", line.c_str());
    line_open_ = true;
  } else {
    std::fprintf(options_.display, "%s\n", line.c_str());
  }
  std::fflush(options_.display);
}

}  // namespace weir
