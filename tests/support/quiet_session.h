// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "weir/job_session.h"

namespace weir {

// A membership in which nothing happens; tests override what they are about. Used from one thread.
class QuietSession : public JobSession {
 public:
  JobInfo Info() const override { return {}; }
  absl::Status Declare(const Declaration&) override { return absl::OkStatus(); }
  absl::StatusOr<JobInfo> WaitUntilReady(absl::Duration) override { return JobInfo(); }
  absl::Status ReportInitialised() override { return absl::OkStatus(); }
  absl::Status WaitForOtherAttempt(uint64_t, absl::Duration) override { return absl::OkStatus(); }
  absl::StatusOr<BarrierResult> Barrier(const std::string&, const std::map<std::string, double>&,
                                        const BarrierOptions&) override {
    return BarrierResult();
  }
  absl::StatusOr<TakenRanges> TakeRanges(uint64_t, absl::Duration) override {
    return TakenRanges();
  }
  void ReportProgress(const Progress& progress) override { reported.push_back(progress); }
  absl::StatusOr<std::string> SaveCheckpoint(const std::map<std::string, double>&) override {
    return std::string();
  }
  absl::Status Leave(bool, const std::string&) override { return absl::OkStatus(); }
  absl::StatusOr<bool> LeaveToOthers(const std::string&) override { return true; }

  std::vector<Progress> reported;
};

}  // namespace weir
