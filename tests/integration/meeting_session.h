// SPDX-License-Identifier: Apache-2.0
// Sessions of several workers in one process, the coordinator's part played by the test.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "tests/support/hand_made_job.h"
#include "weir/job_session.h"

namespace weir {

// Where the workers of a job meet. Thread-safe.
class Meeting {
 public:
  Meeting(HandMadeJob& job, uint32_t workers) : job_(job), workers_(workers) {}

  void Initialised() {
    MutexLock lock(mutex_);
    job_.Run();
    initialised_ = true;
    changed_.NotifyAll();
  }
  bool initialised() {
    MutexLock lock(mutex_);
    return initialised_;
  }
  void AwaitInitialised() {
    MutexLock lock(mutex_);
    while (!initialised_) changed_.Wait(mutex_);
  }
  BarrierResult Enter(const std::string& name, const std::map<std::string, double>& values) {
    MutexLock lock(mutex_);
    BarrierResult& barrier = barriers_[name];
    ++barrier.members;
    for (const auto& [key, value] : values) barrier.sums[key] += value;
    changed_.NotifyAll();
    while (barrier.members < workers_) changed_.Wait(mutex_);
    return barrier;
  }
  // A request of the same number by another worker of a sync group gets the same answer.
  DataRange Take(uint32_t holder, size_t number, uint64_t examples, uint64_t total) {
    MutexLock lock(mutex_);
    std::vector<DataRange>& answers = answers_[holder];
    if (number == answers.size()) {
      answers.push_back({0, taken_, std::min(total, taken_ + examples)});
      taken_ = answers.back().end;
    }
    return answers[number];
  }

 private:
  HandMadeJob& job_;
  const uint32_t workers_;
  Mutex mutex_;
  CondVar changed_;
  bool initialised_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint32_t, std::vector<DataRange>> answers_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, BarrierResult> barriers_ ABSL_GUARDED_BY(mutex_);
};

class MeetingSession final : public JobSession {
 public:
  // `workers_per_group`: of those in step with each other; 0: there is one group.
  MeetingSession(Meeting& meeting, uint32_t rank, uint32_t workers, uint32_t workers_per_group = 0)
      : meeting_(meeting),
        rank_(rank),
        workers_(workers),
        workers_per_group_(workers_per_group == 0 ? workers : workers_per_group),
        holder_(workers_per_group == 0 ? rank : rank / workers_per_group) {}

  JobInfo Info() const override {
    JobInfo info;
    info.attempt = 1;
    info.member = true;
    info.rank = rank_;
    info.servers = 2;
    for (uint32_t rank = 0; rank < workers_; ++rank) {
      info.members.push_back({rank, 0, rank / workers_per_group_});
    }
    info.initialiser = rank_ == 0;
    info.state = meeting_.initialised() ? JobState::kRunning : JobState::kInitialising;
    info.resume_group_steps = {0, 0};
    return info;
  }
  absl::Status Declare(const Declaration&) override { return absl::OkStatus(); }
  absl::StatusOr<JobInfo> WaitUntilReady(absl::Duration) override {
    if (rank_ != 0) meeting_.AwaitInitialised();
    return Info();
  }
  absl::Status ReportInitialised() override {
    meeting_.Initialised();
    return absl::OkStatus();
  }
  absl::Status WaitForOtherAttempt(uint64_t, absl::Duration) override {
    return absl::AbortedError("nothing is rolled back here");
  }
  absl::StatusOr<BarrierResult> Barrier(const std::string& name,
                                        const std::map<std::string, double>& values,
                                        const BarrierOptions&) override {
    return meeting_.Enter(name, values);
  }
  absl::StatusOr<TakenRanges> TakeRanges(uint64_t examples, absl::Duration) override {
    TakenRanges taken;
    const DataRange range = meeting_.Take(holder_, requests_++, examples, 200);
    taken.end_of_data = range.first == range.end;
    if (!taken.end_of_data) taken.ranges.push_back(range);
    return taken;
  }
  void ReportProgress(const Progress&) override {}
  absl::StatusOr<std::string> SaveCheckpoint(const std::map<std::string, double>&) override {
    return absl::UnimplementedError("no checkpoints here");
  }
  absl::Status Leave(bool, const std::string&) override { return absl::OkStatus(); }
  absl::StatusOr<bool> LeaveToOthers(const std::string&) override { return true; }

 private:
  Meeting& meeting_;
  const uint32_t rank_;
  const uint32_t workers_;
  const uint32_t workers_per_group_;
  const uint32_t holder_;  // of ranges: itself, or its sync group
  size_t requests_ = 0;    // for data
};

}  // namespace weir
