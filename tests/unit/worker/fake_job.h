// SPDX-License-Identifier: Apache-2.0
// A job without a cluster: a session and a client that keep what they are asked.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "weir/job_session.h"
#include "weir/parameter_client.h"

namespace weir {

using Calls = std::vector<std::string>;

// A membership of one, whose calls are written down.
class FakeSession final : public JobSession {
 public:
  explicit FakeSession(Calls& calls) : calls_(calls) {
    info.member = true;
    info.members = {{0, 0}};
    info.servers = 2;
    info.state = JobState::kInitialising;
    info.initialiser = true;
    info.resume_group_steps = {0, 0};
  }

  JobInfo Info() const override { return info; }
  absl::Status Declare(const Declaration&) override {
    calls_.push_back("declare");
    return declared;
  }
  absl::StatusOr<JobInfo> WaitUntilReady(absl::Duration timeout) override {
    if (not_ready) WEIR_RETURN_IF_ERROR(not_ready(timeout));
    return info;
  }
  absl::Status ReportInitialised() override {
    calls_.push_back("initialised");
    info.state = JobState::kRunning;
    return absl::OkStatus();
  }
  absl::Status WaitForOtherAttempt(uint64_t attempt, absl::Duration timeout) override {
    if (no_other_attempt) return no_other_attempt(timeout);
    if (info.attempt != attempt) return absl::OkStatus();
    return absl::AbortedError("no longer a member");
  }
  absl::StatusOr<BarrierResult> Barrier(const std::string& name,
                                        const std::map<std::string, double>& values,
                                        const BarrierOptions& options) override {
    calls_.push_back("barrier " + name);
    barrier_steps.push_back(options.step);
    if (at_barrier) at_barrier(name);
    BarrierResult result{values, static_cast<uint32_t>(info.members.size())};
    for (auto& [key, sum] : result.sums) sum *= alike;
    for (const auto& [key, value] : from_others[name]) result.sums[key] += value;
    return result;
  }
  absl::StatusOr<TakenRanges> TakeRanges(uint64_t, absl::Duration) override {
    if (dry > 0) {
      --dry;
      return TakenRanges{{}, false};
    }
    if (ranges.empty()) return TakenRanges{{}, true};
    TakenRanges taken{{ranges.front()}, false};
    ranges.erase(ranges.begin());
    return taken;
  }
  void ReportProgress(const Progress& progress) override { reported.push_back(progress); }
  absl::StatusOr<std::string> SaveCheckpoint(const std::map<std::string, double>&) override {
    calls_.push_back("save");
    if (!saved.ok()) return saved;
    return std::string("checkpoint-1");
  }
  absl::Status Leave(bool finished, const std::string& reason) override {
    calls_.push_back(absl::StrCat("leave ", finished ? "finished" : reason));
    return absl::OkStatus();
  }
  absl::StatusOr<bool> LeaveToOthers(const std::string& reason) override {
    if (others_leave_too) info.members = {{info.rank, 0}};
    if (info.members.size() <= 1) return false;
    calls_.push_back("leave to others: " + reason);
    return true;
  }

  JobInfo info;
  absl::Status declared;
  absl::Status saved;
  std::function<absl::Status(absl::Duration)> not_ready;  // null: it is ready
  std::function<absl::Status(absl::Duration)> no_other_attempt;
  std::function<void(const std::string&)> at_barrier;
  bool others_leave_too = false;
  double alike = 1;  // members that bring to a barrier what this one brings
  std::map<std::string, std::map<std::string, double>> from_others;  // by barrier
  std::vector<DataRange> ranges;
  int dry = 0;  // requests for ranges that find none for now
  std::vector<Progress> reported;
  std::vector<uint64_t> barrier_steps;

 private:
  Calls& calls_;
};

// Keeps one weight, from which each gradient is taken.
class FakeClient final : public ParameterClient {
 public:
  explicit FakeClient(Calls& calls) : calls_(calls) {}

  absl::Status Assign(absl::Span<const PushItem> values) override {
    calls_.push_back("assign");
    std::memcpy(&weight, values[0].data, sizeof(weight));
    return absl::OkStatus();
  }
  absl::StatusOr<PullStats> Pull(absl::Span<const PullItem> into,
                                 const PullOptions& options) override {
    calls_.push_back(absl::StrCat("pull ", options.step));
    std::memcpy(into[0].data, &weight, sizeof(weight));
    for (const PullItem& item : into) {
      if (item.variable == 1) std::memcpy(item.data, &state, sizeof(state));
    }
    PullStats stats;
    stats.slowest_step = slowest_step;
    stats.group_steps = group_steps;
    return stats;
  }
  absl::StatusOr<PushStats> Push(absl::Span<const PushItem>, const PushOptions& options) override {
    calls_.push_back(options.finished ? absl::StrCat("finished ", options.group)
                                      : absl::StrCat("state ", options.step));
    return PushStats{};
  }
  absl::StatusOr<PushStats> PushPull(absl::Span<const PushItem> gradients,
                                     absl::Span<const PullItem> into,
                                     const PushOptions& options) override {
    if (before_push) {
      const absl::Status status = before_push(options);
      if (!status.ok()) return status;
    }
    pushes.push_back(options);
    absent.push_back(gradients[0].data == nullptr);
    if (!absent.back()) weight -= *static_cast<const float*>(gradients[0].data);
    if (!into.empty()) std::memcpy(into[0].data, &weight, sizeof(weight));
    PushStats stats;
    stats.staleness = 3;
    if (answer) answer(options, stats);
    return stats;
  }
  std::unique_ptr<PendingPush> StartPushPull(absl::Span<const PushItem>, absl::Span<const PullItem>,
                                             const PushOptions&) override {
    return start ? start() : nullptr;
  }
  // Of one participant: its own share.
  absl::StatusOr<ReduceStats> Reduce(absl::Span<const std::byte> data, const ReduceOptions&,
                                     std::vector<std::byte>& result) override {
    if (!reduce) return absl::UnimplementedError("this loop calls no collective");
    result.assign(data.begin(), data.end());
    return reduce();
  }

  float weight = 0;
  // What a pull tells.
  std::vector<uint64_t> group_steps;
  uint64_t slowest_step = 0;
  float state = 0;  // as the servers have it
  std::vector<PushOptions> pushes;
  std::vector<bool> absent;
  std::function<absl::Status(const PushOptions&)> before_push;
  std::function<void(const PushOptions&, PushStats&)> answer;
  std::function<std::unique_ptr<PendingPush>()> start;
  std::function<absl::StatusOr<ReduceStats>()> reduce;  // null: none is called

 private:
  Calls& calls_;
};

}  // namespace weir
