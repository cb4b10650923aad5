// SPDX-License-Identifier: Apache-2.0
// What an attempt's steps are taken on, and what becomes of it where there is no more.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/training_attempt.h"

namespace weir {
namespace {

std::vector<PullItem> OfGroup(ReplicaRunner& runner, uint32_t group) {
  std::vector<PullItem> items = runner.Storage();
  const auto& variables = runner.declaration().variables;
  items.erase(
      std::remove_if(items.begin(), items.end(),
                     [&](const PullItem& item) { return variables[item.variable].group != group; }),
      items.end());
  return items;
}

// How long a batch may still take when the job shall stop.
constexpr absl::Duration kAfterStop = absl::Seconds(2);

}  // namespace

// The data of the next step, if there is any.
absl::Status TrainingAttempt::Fetch() {
  while (!item_ && !over()) {
    const absl::Time began = parts_.clock.Now();
    const absl::StatusOr<FeedItem> item = feed_->Next(step_);
    input_ += parts_.clock.Now() - began;
    WEIR_RETURN_IF_ERROR(CheckNotInterrupted(parts_));
    stopped_ = absl::IsCancelled(item.status());
    if (stopped_) break;
    WEIR_RETURN_IF_ERROR(item.status());
    if (item->end) {
      ended_ = true;
      return EndOfData();
    }
    if (!bounded_ || item->slice.examples() > 0) return TakeInput(*item);
    WEIR_RETURN_IF_ERROR(StepWithoutExamples(*item));
    WEIR_RETURN_IF_ERROR(CheckNotInterrupted(parts_));
    stopped_ = StopsHere(parts_.session.Info());
  }
  return absl::OkStatus();
}

absl::Status TrainingAttempt::EndOfData() {
  WEIR_RETURN_IF_ERROR(parts_.runner.Settle());
  if (!bounded_) return absl::OkStatus();
  return updates_.Finish(static_cast<uint32_t>(parts_.runner.declaration().groups.size()));
}

// Bounded staleness: there is no data now, but the others may wait for this worker's steps.
absl::Status TrainingAttempt::StepWithoutExamples(const FeedItem& item) {
  LogStep();
  WEIR_RETURN_IF_ERROR(parts_.runner.Settle());
  BeginStep(item);
  const auto groups = static_cast<uint32_t>(parts_.runner.declaration().groups.size());
  for (uint32_t group = 1; group <= groups; ++group) {
    const std::vector<PullItem> weights = OfGroup(parts_.runner, group);
    std::vector<PushItem> absent;
    for (const PullItem& weight : weights) absent.push_back({weight.variable, nullptr, 0});
    WEIR_RETURN_IF_ERROR(updates_.Update(group, absent, weights, /*weight=*/0));
    parts_.runner.Land(weights);
  }
  EndStep(item);
  return AfterStep(item.position);
}

// Asked while an input makes this worker wait. `until`: when a job in step that shall stop goes on
// without this worker; where there are steps left before its last one, the others wait for it.
absl::Status TrainingAttempt::MayWaitForInput(absl::Time& until) const {
  WEIR_RETURN_IF_ERROR(CheckNotInterrupted(parts_));
  const JobInfo info = parts_.session.Info();
  const absl::Time now = parts_.clock.Now();
  if (info.stop) until = std::min(until, now + kAfterStop);
  if (StopsHere(info) || now >= until) return absl::CancelledError("the job shall stop");
  if (info.member && info.attempt == info_.attempt) return absl::OkStatus();
  return absl::AbortedError("the job went on without this worker, which waited for its input");
}

absl::Status TrainingAttempt::TakeInput(const FeedItem& item) {
  InputRequest request;
  request.slice = item.slice;
  request.upcoming = feed_->Upcoming(step_ + 1, parts_.input.ahead());
  request.first_replica = parts_.session.Info().rank * parts_.runner.replicas();
  request.go_on = [this, until = absl::InfiniteFuture()]() mutable {
    return MayWaitForInput(until);
  };
  const absl::Time began = parts_.clock.Now();
  absl::StatusOr<std::vector<ReplicaBatch>> batches = parts_.input.Take(request);
  input_ += parts_.clock.Now() - began;
  if (absl::IsOutOfRange(batches.status())) {
    input_ended_ = std::string(batches.status().message());
    return absl::OkStatus();
  }
  stopped_ = absl::IsCancelled(batches.status()) && !parts_.interrupted;
  if (stopped_) return absl::OkStatus();
  WEIR_RETURN_IF_ERROR(batches.status());
  batches_ = *std::move(batches);
  item_ = item;
  return absl::OkStatus();
}

// A source of this worker's has ended: the others go on without it. Where there is nobody else, the
// job has ended; whether there is, the coordinator knows, as the others may be leaving too.
absl::StatusOr<RunSummary> TrainingAttempt::EndWithInput() {
  WEIR_RETURN_IF_ERROR(parts_.runner.Settle());
  spdlog::info("{}; {}={}", input_ended_, step_name(), step_);
  WEIR_ASSIGN_OR_RETURN(const bool left, parts_.session.LeaveToOthers(input_ended_));
  if (!left) return End();
  RunSummary summary;
  summary.left = input_ended_;
  return summary;
}

}  // namespace weir
