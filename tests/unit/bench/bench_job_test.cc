// SPDX-License-Identifier: Apache-2.0
#include "bench/bench_job.h"

#include <gmock/gmock.h>

#include <memory>
#include <utility>
#include <vector>

#include "tests/support/quiet_session.h"
#include "tests/support/status_matchers.h"

namespace weir::bench {
namespace {

// A job that is rolled back as soon as it has its first values, and then runs.
class RolledBackOnce final : public QuietSession {
 public:
  absl::StatusOr<JobInfo> WaitUntilReady(absl::Duration) override {
    JobInfo info;
    info.attempt = attempt_;
    info.initialiser = !initialised_;
    return info;
  }
  absl::Status ReportInitialised() override {
    initialised_ = attempt_ == 2;
    attempt_ = 2;
    return absl::OkStatus();
  }

 private:
  uint64_t attempt_ = 1;
  bool initialised_ = false;
};

// Counts what is assigned.
class Assigned final : public ParameterClient {
 public:
  explicit Assigned(int& times) : times_(times) {}

  absl::Status Assign(absl::Span<const PushItem>) override {
    ++times_;
    return absl::OkStatus();
  }
  absl::StatusOr<PullStats> Pull(absl::Span<const PullItem>, const PullOptions&) override {
    return PullStats();
  }
  absl::StatusOr<PushStats> Push(absl::Span<const PushItem>, const PushOptions&) override {
    return PushStats();
  }
  absl::StatusOr<PushStats> PushPull(absl::Span<const PushItem>, absl::Span<const PullItem>,
                                     const PushOptions&) override {
    return PushStats();
  }
  std::unique_ptr<PendingPush> StartPushPull(absl::Span<const PushItem>, absl::Span<const PullItem>,
                                             const PushOptions&) override {
    return nullptr;
  }
  absl::StatusOr<ReduceStats> Reduce(absl::Span<const std::byte>, const ReduceOptions&,
                                     std::vector<std::byte>&) override {
    return ReduceStats();
  }

 private:
  int& times_;
};

TEST(BenchJob, WhatARollbackHasUndoneIsAssignedAgain) {
  int assigned = 0;
  Job job;
  job.session = std::make_unique<RolledBackOnce>();
  job.parameters = std::make_unique<Assigned>(assigned);
  WEIR_ASSERT_OK(BenchJob::Create(std::move(job), /*elements=*/4));
  EXPECT_EQ(assigned, 2);
}

}  // namespace
}  // namespace weir::bench
