// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/counting_worker.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/status_macros.h"
#include "rpc/errors.h"
#include "tests/faults/send_hold.h"
#include "weir/v1/job_spec.pb.h"

namespace weir {
namespace {

void Say(const std::string& line) {
  std::cout << line << std::endl;
}

v1::JobSpec SpecOf(const CountingWorker::Options& options) {
  v1::JobSpec spec;
  spec.set_name(options.job);
  spec.set_workers(options.workers);
  spec.set_min_workers(options.min_workers == 0 ? options.workers : options.min_workers);
  spec.set_replicas_per_worker(1);
  *spec.mutable_regime() = options.regime;
  spec.mutable_length()->set_steps(options.steps);
  if (options.gradient == CountingWorker::Gradient::kData) {
    spec.set_train_examples(options.examples);
    spec.mutable_data()->mutable_batch()->set_per_replica(options.batch);
    spec.mutable_length()->set_epochs(1);
  }
  spec.mutable_checkpoint()->set_keep(3);
  spec.set_shard_bytes(256 << 10);
  return spec;
}

}  // namespace

CountingWorker::CountingWorker(Options options) : options_(std::move(options)) {
  for (const uint64_t elements :
       {options_.elements - options_.elements / 4, options_.elements / 4}) {
    weights_.emplace_back(elements, 0.0f);
    gradients_.emplace_back(elements, -options_.amount);
  }
}

absl::Status CountingWorker::Run() {
  WEIR_RETURN_IF_ERROR(Join());
  WEIR_RETURN_IF_ERROR(GetReady());
  while (!IsDone()) {
    if (options_.leave_at != 0 && step_ >= options_.leave_at) {
      return job_.session->Leave(/*finished=*/true, "no more data");
    }
    const absl::Status status = Step();
    if (status.ok()) continue;
    Say(absl::StrCat("step ", step_, " failed: ", status.ToString()));
    if (!absl::IsAborted(status)) return status;
    WEIR_RETURN_IF_ERROR(GetReady());
    const JobInfo info = job_.session->Info();
    Say(absl::StrCat("resumed at step ", step_, " attempt=", info.attempt,
                     " lost=", info.lost_steps));
  }
  return Finish();
}

bool CountingWorker::IsDone() const {
  return options_.gradient == Gradient::kData ? end_of_data_ : step_ >= options_.steps;
}

absl::Status CountingWorker::Join() {
  JoinOptions join;
  join.coordinator = options_.coordinator;
  join.serialized_spec = SpecOf(options_).SerializeAsString();
  join.timeout = options_.timeout;
  WEIR_ASSIGN_OR_RETURN(job_, JoinJob(join));
  Say(absl::StrCat("joined rank=", job_.session->Info().rank));
  Declaration declaration;
  for (size_t i = 0; i < weights_.size(); ++i) {
    VariableSpec variable;
    variable.name = absl::StrCat("w", i);
    variable.shape = {weights_[i].size()};
    declaration.variables.push_back(variable);
  }
  OptimizerGroup group;
  group.name = "sgd";
  group.learning_rate.base = 1;
  group.optimizer = Sgd{};
  declaration.groups.push_back(group);
  return job_.session->Declare(declaration);
}

absl::Status CountingWorker::GetReady() {
  absl::Status begun;
  do {
    WEIR_ASSIGN_OR_RETURN(const JobInfo info, job_.session->WaitUntilReady(options_.timeout));
    begun = Begin(info);
  } while (absl::IsAborted(begun));
  return begun;
}

absl::Status CountingWorker::Begin(JobInfo info) {
  if (info.state == JobState::kInitialising && info.initialiser) {
    std::vector<PushItem> values;
    for (size_t i = 0; i < weights_.size(); ++i) {
      std::fill(weights_[i].begin(), weights_[i].end(),
                options_.gradient == Gradient::kWeights ? 1.0f : 0.0f);
      values.push_back({i, weights_[i].data(), weights_[i].size() * sizeof(float)});
    }
    WEIR_RETURN_IF_ERROR(job_.parameters->Assign(values));
    WEIR_RETURN_IF_ERROR(job_.session->ReportInitialised());
    const uint64_t attempt = info.attempt;
    WEIR_ASSIGN_OR_RETURN(info, job_.session->WaitUntilReady(options_.timeout));
    if (info.attempt != attempt) return StaleAttempt(attempt, info.attempt);
  }
  step_ = info.resume_step;
  for (const JobInfo::Member& member : info.members) {
    const bool counts = options_.regime.kind() != v1::REGIME_ASYNC;
    if (counts && member.rank == info.rank) step_ = std::max(step_, member.first_step);
  }
  group_step_ = step_;
  ranges_.clear();
  consumed_ = 0;
  return Pull();
}

std::vector<PullItem> CountingWorker::Weights() {
  std::vector<PullItem> items;
  for (size_t i = 0; i < weights_.size(); ++i) {
    items.push_back({i, weights_[i].data(), weights_[i].size() * sizeof(float)});
  }
  return items;
}

absl::Status CountingWorker::Pull() {
  PullOptions options;
  options.step = options_.regime.kind() == v1::REGIME_ASYNC ? 0 : step_;
  options.timeout = options_.timeout;
  WEIR_ASSIGN_OR_RETURN(const PullStats stats, job_.parameters->Pull(Weights(), options));
  step_ = std::max(step_, stats.slowest_step);
  return absl::OkStatus();
}

absl::StatusOr<bool> CountingWorker::FillGradients() {
  if (options_.gradient == Gradient::kData) return FillFromData();
  if (options_.gradient == Gradient::kWeights) {
    for (size_t i = 0; i < weights_.size(); ++i) {
      std::transform(weights_[i].begin(), weights_[i].end(), gradients_[i].begin(),
                     std::negate<float>());
    }
  }
  return true;
}

absl::StatusOr<bool> CountingWorker::FillFromData() {
  if (ranges_.empty()) {
    WEIR_ASSIGN_OR_RETURN(const TakenRanges taken,
                          job_.session->TakeRanges(4 * options_.batch, options_.timeout));
    ranges_.assign(taken.ranges.begin(), taken.ranges.end());
    end_of_data_ = taken.end_of_data;
    if (ranges_.empty()) return false;
  }
  DataRange& range = ranges_.front();
  const uint64_t first = range.first;
  range.first = std::min(range.end, first + options_.batch);
  examples_ = range.first - first;
  for (std::vector<float>& gradients : gradients_) {
    const uint64_t own = gradients.size() / options_.examples;
    std::fill(gradients.begin(), gradients.end(), 0.0f);
    std::fill_n(gradients.begin() + static_cast<int64_t>(first * own), examples_ * own, -1.0f);
  }
  if (range.first == range.end) ranges_.pop_front();
  return true;
}

absl::Status CountingWorker::Step() {
  WEIR_ASSIGN_OR_RETURN(const bool any, FillGradients());
  if (!any) return absl::OkStatus();
  absl::SleepFor(options_.step_time);
  if (options_.hold_at >= 0 && step_ >= static_cast<uint64_t>(options_.hold_at)) {
    Say(absl::StrCat("waiting at step ", step_));
    while (true) pause();
  }
  WEIR_ASSIGN_OR_RETURN(const PushStats stats, Push());
  const uint64_t next = std::max(step_ + 1, stats.next_step);
  if (stats.late) {
    Say(absl::StrCat("late at step ", step_, ", on to ", next));
    ++late_pushes_;
  } else {
    Say(absl::StrCat("step ", step_, " weight ", WeightText()));
  }
  step_ = next;
  group_step_ = std::max(group_step_ + 1, stats.next_group_step);
  Progress progress;
  progress.late_pushes = late_pushes_;
  progress.step = step_;
  progress.examples = consumed_;
  job_.session->ReportProgress(progress);
  return absl::OkStatus();
}

absl::StatusOr<PushStats> CountingWorker::Push() {
  std::vector<PushItem> gradients;
  for (size_t i = 0; i < gradients_.size(); ++i) {
    gradients.push_back({i, gradients_[i].data(), gradients_[i].size() * sizeof(float)});
  }
  consumed_ += examples_;
  PushOptions options;
  options.step = step_;
  options.group_step = group_step_;
  options.examples = examples_;
  options.consumed = consumed_;
  options.timeout = options_.timeout;
  if (options_.hold_in >= 0 && step_ == static_cast<uint64_t>(options_.hold_in)) {
    HoldSendsAfter(options_.hold_after_bytes);
  }
  return job_.parameters->PushPull(gradients, Weights(), options);
}

std::string CountingWorker::WeightText() const {
  const float first = weights_[0][0];
  for (const std::vector<float>& weights : weights_) {
    for (const float weight : weights) {
      if (weight != first) return "mixed";
    }
  }
  return absl::StrFormat("%.9g", first);
}

std::string CountingWorker::ValuesText() const {
  std::set<float> values;
  uint64_t run = 0;  // the greatest that divides every place where the value changes
  for (const std::vector<float>& weights : weights_) {
    values.insert(weights[0]);
    for (size_t i = 1; i < weights.size(); ++i) {
      if (weights[i] == weights[i - 1]) continue;
      values.insert(weights[i]);
      run = std::gcd(run, i);
    }
  }
  return absl::StrCat("values ", absl::StrJoin(values, " "), " in runs of ", run, " elements");
}

absl::Status CountingWorker::Finish() {
  WEIR_RETURN_IF_ERROR(job_.session->Barrier("end", {}, {options_.timeout}).status());
  WEIR_RETURN_IF_ERROR(Pull());
  const JobInfo info = job_.session->Info();
  Say(absl::StrCat("finished weight=", WeightText(), " attempt=", info.attempt,
                   " lost=", info.lost_steps));
  if (WeightText() == "mixed") Say(ValuesText());
  WEIR_RETURN_IF_ERROR(job_.session->Barrier("done", {}, {options_.timeout}).status());
  return job_.session->Leave(/*finished=*/true, "");
}

}  // namespace weir
