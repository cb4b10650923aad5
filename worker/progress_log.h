// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "weir/job_session.h"
#include "worker/replica_runner.h"

namespace weir {

// One training step, done.
struct StepRecord {
  uint64_t step = 0;      // its number
  uint64_t examples = 0;  // of this worker in it
  double position = 0;    // of the job, in examples
  uint64_t staleness = 0;
  uint64_t late_pushes = 0;  // of this worker so far in this attempt
  StepSeconds seconds;
  Metrics metrics;
};

// Shows how training goes: a line for people, a line in metrics.jsonl and a report to the
// coordinator every so many steps. Used from one thread.
class ProgressLog {
 public:
  struct Options {
    std::string metrics_file;      // empty: none
    bool start_anew = false;       // empties it first
    std::FILE* display = nullptr;  // borrowed; nullptr: no line for people
    bool terminal = false;         // redraw the line in place
    uint64_t log_every = 50;
    uint64_t train_examples = 1;
    double total_examples = 1;  // of the job
    bool sync = false;
    bool backup_workers = false;  // say how many pushes came late
  };

  // Borrows the session and the clock. Errors: Unavailable - the file cannot be opened.
  static absl::StatusOr<std::unique_ptr<ProgressLog>> Create(const Options& options,
                                                             JobSession& session, Clock& clock);
  ~ProgressLog();

  // Once an attempt, before its first step.
  void Begin(double position);
  void Add(const StepRecord& record);
  // What an evaluation found, e.g. {"accuracy": 0.91}; written as "test_accuracy".
  void AddEvaluation(uint64_t step, double position, const Metrics& metrics);
  // Writes what is left of the interval.
  void Flush();

  // Means of the newest interval with steps, by name.
  const Metrics& last_metrics() const { return last_metrics_; }

 private:
  struct Interval {
    uint64_t steps = 0;
    uint64_t examples = 0;
    double staleness = 0;
    StepSeconds seconds;
    Metrics weighted;  // sums, times examples
    Metrics weights;   // examples behind each: not every step logs every name
  };

  ProgressLog(const Options& options, JobSession& session, Clock& clock)
      : options_(options), session_(session), clock_(clock) {}
  void Report();
  // Means over the interval; a new one begins.
  Progress TakeInterval(absl::Time now);
  void WriteInterval(const Progress& progress, absl::Time now);
  void ShowInterval(const Progress& progress);
  double EpochOf(double position) const;
  void Show(const std::string& line);
  void WriteLine(const std::string& json);
  std::string TimeLeft() const;

  const Options options_;
  JobSession& session_;
  Clock& clock_;
  std::ofstream file_;
  absl::Time created_;
  absl::Time began_;  // the attempt
  double began_position_ = 0;
  absl::Time interval_began_;
  Interval interval_;
  StepRecord last_;
  uint64_t examples_ = 0;  // of this worker in this attempt
  Metrics last_metrics_;
  bool line_open_ = false;  // a redrawn line waits for its end
};

}  // namespace weir
