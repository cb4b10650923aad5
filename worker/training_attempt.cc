// SPDX-License-Identifier: Apache-2.0
#include "worker/training_attempt.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "rpc/job_length.h"
#include "rpc/regime.h"
#include "worker/data/batch_slices.h"

namespace weir {
namespace {

std::vector<PushItem> AsPushed(const std::vector<PullItem>& storage) {
  std::vector<PushItem> items;
  for (const PullItem& item : storage) items.push_back({item.variable, item.data, item.bytes});
  return items;
}

std::vector<PullItem> OfGroup(ReplicaRunner& runner, uint32_t group) {
  std::vector<PullItem> items = runner.Storage();
  const auto& variables = runner.declaration().variables;
  items.erase(
      std::remove_if(items.begin(), items.end(),
                     [&](const PullItem& item) { return variables[item.variable].group != group; }),
      items.end());
  return items;
}

// A worker that joins later starts with the group steps that the others have reached by then: every
// group is updated once a step.
std::vector<uint64_t> FirstGroupSteps(const JobInfo& info, uint64_t first_step, size_t groups) {
  std::vector<uint64_t> steps = info.resume_group_steps;
  steps.resize(groups + 1);
  for (uint64_t& step : steps) step += first_step - info.resume_step;
  return steps;
}

// Not behind the end: a joiner would wait there for steps that nobody runs.
uint64_t FirstStep(const JobInfo& info, const v1::JobSpec& spec) {
  if (spec.regime().kind() == v1::REGIME_ASYNC) return info.resume_step;
  uint64_t first = 0;
  for (const JobInfo::Member& member : info.members) {
    if (member.rank == info.rank) first = member.first_step;
  }
  if (IsSync(spec)) first = std::min(first, TotalSteps(spec));
  return std::max(first, info.resume_step);
}

double ValueOr(const std::map<std::string, double>& values, const std::string& name,
               double fallback) {
  const auto found = values.find(name);
  return found == values.end() ? fallback : found->second;
}

}  // namespace

TrainingAttempt::TrainingAttempt(TrainingParts& parts, const JobInfo& info)
    : parts_(parts),
      info_(info),
      sync_(IsSync(parts.spec)),
      bounded_(parts.spec.regime().kind() == v1::REGIME_BOUNDED_STALENESS),
      timeout_(absl::Milliseconds(parts.spec.step_timeout_ms())),
      updates_(parts.client,
               FirstGroupSteps(info, FirstStep(info, parts.spec),
                               parts.runner.declaration().groups.size()),
               timeout_),
      evaluation_(parts),
      first_step_(FirstStep(info, parts.spec)),
      step_(first_step_) {}

absl::StatusOr<RunSummary> TrainingAttempt::Run() {
  WEIR_RETURN_IF_ERROR(Start());
  WEIR_RETURN_IF_ERROR(Train());
  parts_.log.Flush();
  return stopped_ ? EndEarly() : End();
}

absl::Status TrainingAttempt::Initialise() {
  WEIR_RETURN_IF_ERROR(parts_.runner.Reset());
  WEIR_RETURN_IF_ERROR(parts_.client.Assign(AsPushed(parts_.runner.Storage())));
  WEIR_RETURN_IF_ERROR(parts_.session.ReportInitialised());
  spdlog::info("initialised attempt={} variables={}", info_.attempt,
               parts_.runner.declaration().variables.size());
  return parts_.session.WaitUntilReady(timeout_).status();
}

absl::Status TrainingAttempt::Start() {
  if (info_.state == JobState::kInitialising && info_.initialiser)
    WEIR_RETURN_IF_ERROR(Initialise());
  PullOptions options;
  options.step = parts_.spec.regime().kind() == v1::REGIME_ASYNC ? 0 : first_step_;
  WEIR_ASSIGN_OR_RETURN(const PullStats pulled,
                        parts_.client.Pull(parts_.runner.Storage(), options));
  // The others may have gone on since the view was made.
  if (bounded_) step_ = first_step_ = std::max(first_step_, pulled.slowest_step);
  spdlog::info("training attempt={} rank={} {}={} checkpoint={}", info_.attempt, info_.rank,
               step_name(), step_, info_.checkpoint_id.empty() ? "none" : info_.checkpoint_id);
  // Not where the attempt began: a worker may join later.
  position_ = static_cast<double>(sync_ ? ExamplesAfterSteps(first_step_, parts_.spec)
                                        : std::max(pulled.examples, info_.resume_examples));
  feed_ = DataFeed::Create(parts_.spec, parts_.session, parts_.clock, position_);
  parts_.log.Begin(position_);
  began_ = parts_.clock.Now();
  return absl::OkStatus();
}

absl::Status TrainingAttempt::Train() {
  while (true) {
    WEIR_RETURN_IF_ERROR(CheckNotInterrupted(parts_));
    stopped_ = StopsHere(parts_.session.Info());
    if (stopped_) return absl::OkStatus();
    const absl::StatusOr<FeedItem> item = feed_->Next(step_);
    stopped_ = absl::IsCancelled(item.status());
    if (stopped_) return absl::OkStatus();
    WEIR_RETURN_IF_ERROR(item.status());
    if (item->end) return EndOfData();
    WEIR_RETURN_IF_ERROR(TrainStep(*item));
    WEIR_RETURN_IF_ERROR(AfterStep(item->position));
  }
}

// In `sync` all do the same steps, so that each of these is a whole one.
bool TrainingAttempt::StopsHere(const JobInfo& info) const {
  return info.stop && (!sync_ || step_ >= info.stop_step);
}

absl::Status TrainingAttempt::EndOfData() {
  if (!bounded_) return absl::OkStatus();
  return updates_.Finish(static_cast<uint32_t>(parts_.runner.declaration().groups.size()));
}

absl::Status TrainingAttempt::TrainStep(const FeedItem& item) {
  const uint64_t examples = item.slice.examples();
  StepPlace place;
  place.step = step_;
  place.examples = examples;
  place.weight = static_cast<double>(examples) / PerWorkerBatch(parts_.spec);
  place.consumed = item.consumed;
  updates_.BeginStep(place);
  StepRecord record;
  if (examples == 0) {
    WEIR_RETURN_IF_ERROR(StepWithoutExamples());
  } else {
    const ImageBatch batch = parts_.train.Training(item.slice);
    WEIR_ASSIGN_OR_RETURN(record.metrics, parts_.runner.Train(batch, step_, updates_));
  }
  examples_ += examples;
  record.step = step_;
  record.examples = examples;
  record.position = item.position;
  record.staleness = updates_.staleness();
  record.late_pushes = updates_.late_pushes();
  parts_.log.Add(record);
  step_ = std::max(step_ + 1, updates_.next_step());
  return absl::OkStatus();
}

// More members than examples in this step: the others' quorum still counts this worker.
absl::Status TrainingAttempt::StepWithoutExamples() {
  const auto groups = static_cast<uint32_t>(parts_.runner.declaration().groups.size());
  for (uint32_t group = 1; group <= groups; ++group) {
    const std::vector<PullItem> weights = OfGroup(parts_.runner, group);
    std::vector<PushItem> absent;
    for (const PullItem& item : weights) absent.push_back({item.variable, nullptr, 0});
    WEIR_RETURN_IF_ERROR(updates_.Update(group, absent, weights));
  }
  return absl::OkStatus();
}

absl::Status TrainingAttempt::AfterStep(double position) {
  const uint64_t state_every = parts_.spec.state_every();
  if (state_every > 0 && step_ % state_every == 0) WEIR_RETURN_IF_ERROR(PushState());
  const double before = position_;
  position_ = std::max(position_, position);
  const uint64_t every = ExamplesOf(parts_.spec.evaluate().every(), parts_.spec);
  const bool last = position_ >= static_cast<double>(TotalExamples(parts_.spec));
  if (every == 0 || last) return absl::OkStatus();
  const double interval = static_cast<double>(every);
  if (std::floor(before / interval) == std::floor(position_ / interval)) return absl::OkStatus();
  return EvaluateNow();
}

// By the lowest rank, without a meeting: a worker that joins just now would be waited for, while it
// itself waits for the others' next step. docs/decisions/0005-who-evaluates.md.
absl::Status TrainingAttempt::EvaluateNow() {
  const bool mine = lowest();
  if (sync_ || mine) WEIR_RETURN_IF_ERROR(PushState());
  if (!mine) return absl::OkStatus();
  const absl::Time began = parts_.clock.Now();
  parts_.log.Flush();
  WEIR_ASSIGN_OR_RETURN(const Metrics metrics, evaluation_.Alone(sync_ ? step_ : 0));
  parts_.log.AddEvaluation(step_, position_, metrics);
  evaluating_ += parts_.clock.Now() - began;
  return absl::OkStatus();
}

absl::Status TrainingAttempt::PushState() {
  const std::vector<PullItem> state = OfGroup(parts_.runner, 0);
  if (state.empty()) return absl::OkStatus();
  return updates_.PushState(AsPushed(state), step_);
}

BarrierOptions TrainingAttempt::Meeting() const {
  return {timeout_, sync_ ? step_ : 0};
}

bool TrainingAttempt::lowest() const {
  const JobInfo info = parts_.session.Info();
  const auto members = MembersAt(info.members, sync_ ? step_ : 0);
  return members.empty() || members.front().rank == info.rank;
}

// Where a step is one of several workers, one of them counts it.
bool TrainingAttempt::leads_group() const {
  if (SyncGroups(parts_.spec) == 0) return true;
  const JobInfo info = parts_.session.Info();
  const auto own = std::find_if(info.members.begin(), info.members.end(),
                                [&](const auto& member) { return member.rank == info.rank; });
  if (own == info.members.end()) return true;
  const auto first = std::find_if(info.members.begin(), own, [&](const auto& member) {
    return member.sync_group == own->sync_group;
  });
  return first == own;
}

double TrainingAttempt::TrainSeconds() const {
  return std::max(1e-9, absl::ToDoubleSeconds(parts_.clock.Now() - began_ - evaluating_));
}

// A checkpoint that cannot be saved is no reason to lose the evaluation too.
absl::Status TrainingAttempt::SaveFinal(RunSummary& summary) {
  if (!parts_.spec.checkpoint().at_end() || !lowest()) return absl::OkStatus();
  const auto saved = parts_.session.SaveCheckpoint(parts_.log.last_metrics());
  if (saved.ok()) summary.checkpoint = *saved;
  if (absl::IsAborted(saved.status())) return saved.status();
  summary.saved = saved.status();
  if (!saved.ok()) spdlog::error("no final checkpoint: {}", saved.status().ToString());
  return absl::OkStatus();
}

absl::StatusOr<RunSummary> TrainingAttempt::End() {
  RunSummary summary;
  const double rate = static_cast<double>(examples_) / TrainSeconds();
  WEIR_RETURN_IF_ERROR(PushState());
  const double steps_made = leads_group() ? static_cast<double>(step_ - first_step_) : 0;
  std::map<std::string, double> mine = {
      {"steps", steps_made}, {"rate", rate}, {"late", static_cast<double>(updates_.late_pushes())}};
  const auto loss = parts_.log.last_metrics().find("loss");
  if (loss != parts_.log.last_metrics().end()) {
    mine["loss"] = loss->second;
    mine["losses"] = 1;
  }
  WEIR_ASSIGN_OR_RETURN(const BarrierResult all, parts_.session.Barrier("end", mine, Meeting()));
  WEIR_RETURN_IF_ERROR(SaveFinal(summary));
  WEIR_RETURN_IF_ERROR(parts_.session.Barrier("saved", {}, Meeting()).status());
  // Asked while nobody can have left yet.
  summary.lead = lowest();
  WEIR_ASSIGN_OR_RETURN(const Metrics test,
                        evaluation_.Together("evaluate-final", sync_ ? step_ : 0));

  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  summary.test_accuracy = ValueOr(test, "accuracy", kNone);
  summary.test_loss = ValueOr(test, "loss", kNone);
  summary.train_loss = ValueOr(all.sums, "loss", kNone) / ValueOr(all.sums, "losses", 1);
  const double steps = ValueOr(all.sums, "steps", 0);
  summary.steps = sync_ ? step_ : info_.resume_step + static_cast<uint64_t>(steps);
  // What workers that are gone had done counts too.
  summary.examples =
      sync_ ? ExamplesAfterSteps(summary.steps, parts_.spec) : TotalExamples(parts_.spec);
  // Not where this worker is, which in `async` is a guess.
  if (summary.lead) parts_.log.AddEvaluation(step_, static_cast<double>(summary.examples), test);
  summary.samples_per_second = ValueOr(all.sums, "rate", 0);
  summary.late_pushes = static_cast<uint64_t>(ValueOr(all.sums, "late", 0));
  summary.workers = all.members;
  return summary;
}

// Stopped by command: in `async` the others are at other steps, so nobody waits for anybody. The
// coordinator saves the checkpoint when all have left, with the state that they push here.
absl::StatusOr<RunSummary> TrainingAttempt::EndEarly() {
  spdlog::info("stopped by command {}={}", step_name(), step_);
  WEIR_RETURN_IF_ERROR(PushState());
  RunSummary summary;
  summary.stopped = true;
  summary.lead = lowest();
  summary.test_accuracy = summary.test_loss = std::numeric_limits<double>::quiet_NaN();
  summary.train_loss = ValueOr(parts_.log.last_metrics(), "loss", summary.test_loss);
  summary.steps = step_;
  summary.examples = examples_;
  summary.samples_per_second = static_cast<double>(examples_) / TrainSeconds();
  summary.workers = static_cast<uint32_t>(parts_.session.Info().members.size());
  return summary;
}

}  // namespace weir
