// SPDX-License-Identifier: Apache-2.0
#include "worker/training_attempt.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "rpc/errors.h"
#include "rpc/job_length.h"
#include "rpc/regime.h"

namespace weir {
namespace {

std::vector<PushItem> AsPushed(const std::vector<PullItem>& storage) {
  std::vector<PushItem> items;
  for (const PullItem& item : storage) items.push_back({item.variable, item.data, item.bytes});
  return items;
}

uint32_t GroupOf(const JobInfo& info) {
  for (const JobInfo::Member& member : info.members) {
    if (member.rank == info.rank) return member.sync_group;
  }
  return 0;
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

}  // namespace

TrainingAttempt::TrainingAttempt(TrainingParts& parts, const JobInfo& info)
    : parts_(parts),
      info_(info),
      sync_(IsSync(parts.spec)),
      bounded_(parts.spec.regime().kind() == v1::REGIME_BOUNDED_STALENESS),
      timeout_(absl::Milliseconds(parts.spec.step_timeout_ms())),
      updates_(parts.client, parts.clock, info.resume_group_steps, PerWorkerBatch(parts.spec),
               timeout_),
      collectives_(parts.client, parts.clock, {info.rank, parts.runner.replicas(), timeout_}),
      evaluation_(parts),
      first_step_(FirstStep(info, parts.spec)),
      step_(first_step_) {}

absl::StatusOr<RunSummary> TrainingAttempt::Run() {
  WEIR_RETURN_IF_ERROR(Start());
  const absl::Status loop = parts_.runner.Loop(*this);
  seconds_ += updates_.TakeSeconds();  // what the end has waited for
  LogStep();
  WEIR_RETURN_IF_ERROR(status_);
  WEIR_RETURN_IF_ERROR(loop);
  if (!over()) {
    return absl::FailedPreconditionError(absl::StrCat("the model's Loop has returned after step ",
                                                      step_, ": it goes on until Next is false"));
  }
  WEIR_RETURN_IF_ERROR(CheckTrained());
  parts_.log.Flush();
  if (!input_ended_.empty()) return EndWithInput();
  return stopped_ ? EndEarly() : End();
}

absl::Status TrainingAttempt::Initialise() {
  WEIR_RETURN_IF_ERROR(parts_.runner.Reset());
  WEIR_RETURN_IF_ERROR(parts_.client.Assign(AsPushed(parts_.runner.Storage())));
  WEIR_RETURN_IF_ERROR(parts_.session.ReportInitialised());
  spdlog::info("initialised attempt={} variables={}", info_.attempt,
               parts_.runner.declaration().variables.size());
  WEIR_ASSIGN_OR_RETURN(const JobInfo ready, parts_.session.WaitUntilReady(timeout_));
  // A rollback meanwhile has undone what was assigned.
  return ready.attempt == info_.attempt ? absl::OkStatus()
                                        : StaleAttempt(info_.attempt, ready.attempt);
}

absl::Status TrainingAttempt::Start() {
  if (info_.state == JobState::kInitialising && info_.initialiser)
    WEIR_RETURN_IF_ERROR(Initialise());
  PullOptions options;
  options.step = parts_.spec.regime().kind() == v1::REGIME_ASYNC ? 0 : first_step_;
  const std::vector<PullItem> storage = parts_.runner.Storage();
  WEIR_ASSIGN_OR_RETURN(const PullStats pulled, parts_.client.Pull(storage, options));
  parts_.runner.Land(storage);
  // The others may have gone on since the view was made, and a group is not updated once a step.
  if (bounded_) step_ = first_step_ = std::max(first_step_, pulled.slowest_step);
  updates_.StartFrom(pulled.group_steps);
  spdlog::info("training attempt={} rank={} {}={} checkpoint={}", info_.attempt, info_.rank,
               step_name(), step_, info_.checkpoint_id.empty() ? "none" : info_.checkpoint_id);
  // Not where the attempt began: a worker may join later.
  position_ = static_cast<double>(sync_ ? ExamplesAfterSteps(first_step_, parts_.spec)
                                        : std::max(pulled.examples, info_.resume_examples));
  feed_ =
      DataFeed::Create(parts_.spec, parts_.session, parts_.clock, parts_.interrupted, position_);
  parts_.log.Begin(position_);
  began_ = parts_.clock.Now();
  return absl::OkStatus();
}

bool TrainingAttempt::Next() {
  if (status_.ok() && !over()) status_ = DoWhatIsDue();
  return status_.ok() && !over();
}

absl::Status TrainingAttempt::DoWhatIsDue() {
  LogStep();
  WEIR_RETURN_IF_ERROR(CheckNotInterrupted(parts_));
  if (evaluation_due_) WEIR_RETURN_IF_ERROR(EvaluateNow());
  evaluation_due_ = false;
  stopped_ = StopsHere(parts_.session.Info());
  return Fetch();
}

// All who are in step do the same ones, so that each of these is a whole one.
bool TrainingAttempt::StopsHere(const JobInfo& info) const {
  const bool in_step = sync_ || SyncGroups(parts_.spec) > 0;
  return info.stop && (!in_step || step_ >= info.stop_step);
}

absl::StatusOr<Metrics> TrainingAttempt::Step() {
  LogStep();
  if (status_.ok()) status_ = CheckNotInterrupted(parts_);
  if (status_.ok()) status_ = Fetch();
  WEIR_RETURN_IF_ERROR(status_);
  if (!item_) {
    return absl::OutOfRangeError(absl::StrCat("the job has ended with ", step_, " steps"));
  }
  const FeedItem item = *item_;
  item_.reset();
  absl::StatusOr<Metrics> metrics = TrainStep(item);
  status_ = metrics.status();
  if (status_.ok()) status_ = AfterStep(item.position);
  WEIR_RETURN_IF_ERROR(status_);
  return metrics;
}

absl::StatusOr<Metrics> TrainingAttempt::TrainStep(const FeedItem& item) {
  BeginStep(item);
  absl::StatusOr<Metrics> metrics = parts_.runner.Train(Place(), batches_, updates_);
  // Where a worker has left in the middle of it, the others have not done it.
  while (MayRepeatStep(metrics.status())) {
    WEIR_RETURN_IF_ERROR(CheckNotInterrupted(parts_));
    spdlog::info("repeating step={}: {}", step_, metrics.status().ToString());
    updates_.RepeatStep();
    metrics = parts_.runner.Train(Place(), batches_, updates_);
  }
  if (!metrics.ok()) return metrics;
  // A push that came late says which step is next.
  if (parts_.spec.regime().backup_workers() > 0) WEIR_RETURN_IF_ERROR(parts_.runner.Settle());
  EndStep(item);
  return metrics;
}

void TrainingAttempt::BeginStep(const FeedItem& item) {
  collectives_.TakeWaited();  // those between the steps
  between_ = updates_.TakeSeconds();
  step_began_ = parts_.clock.Now();
  updates_.BeginStep(
      {step_, item.slice.examples(), item.consumed, in_step() && step_ == info_.resume_step});
}

void TrainingAttempt::EndStep(const FeedItem& item) {
  examples_ += item.slice.examples();
  record_.emplace();
  record_->step = step_;
  record_->examples = item.slice.examples();
  record_->position = item.position;
  record_->staleness = updates_.staleness();
  record_->late_pushes = updates_.late_pushes();
  record_->seconds = TakeSeconds();
  seconds_ += record_->seconds;
  ++steps_made_;
  step_ = std::max(step_ + 1, updates_.next_step());
}

// Where the step's time went. What is not spoken of by the client is computing.
StepSeconds TrainingAttempt::TakeSeconds() {
  StepSeconds seconds = updates_.TakeSeconds();
  seconds.wait += absl::ToDoubleSeconds(collectives_.TakeWaited());
  const double step = absl::ToDoubleSeconds(parts_.clock.Now() - step_began_);
  seconds.compute = std::max(0.0, step - seconds.total());
  seconds.input = absl::ToDoubleSeconds(std::exchange(input_, absl::ZeroDuration()));
  seconds += between_;
  return seconds;
}

void TrainingAttempt::Log(const absl::StatusOr<Metrics>& metrics) {
  if (metrics.ok() && record_) record_->metrics = *metrics;
}

void TrainingAttempt::LogStep() {
  if (record_) parts_.log.Add(*record_);
  record_.reset();
}

uint64_t TrainingAttempt::GlobalStep() const {
  if (sync_) return step_;
  const uint64_t examples = std::max(static_cast<uint64_t>(position_), info_.resume_examples);
  return info_.resume_step + StepsOver(examples, parts_.spec) -
         StepsOver(info_.resume_examples, parts_.spec);
}

ReplicaStep TrainingAttempt::Place() const {
  const JobInfo info = parts_.session.Info();
  const uint32_t replicas = parts_.runner.replicas();
  ReplicaStep place;
  place.step = step_;
  place.global_step = GlobalStep();
  place.attempt = info_.attempt;
  place.first_replica = info.rank * replicas;
  place.replicas_in_sync = replicas;
  place.newcomer = step_ == first_step_;
  const bool in_groups = SyncGroups(parts_.spec) > 0;
  if (!sync_ && !in_groups) return place;
  uint32_t members = 0;
  uint32_t before = 0;
  for (const JobInfo::Member& member : info.members) {
    if (member.first_step > step_ || (in_groups && member.sync_group != GroupOf(info))) continue;
    ++members;
    before += member.rank < info.rank ? 1 : 0;
  }
  if (parts_.spec.workers() > 1) place.others = &collectives_;
  place.first_index = before * replicas;
  place.replicas_in_sync = std::max<uint32_t>(1, members) * replicas;
  return place;
}

absl::Status TrainingAttempt::AfterStep(double position) {
  const uint64_t state_every = parts_.spec.state_every();
  if (state_every > 0 && step_ % state_every == 0) WEIR_RETURN_IF_ERROR(PushState());
  const double before = position_;
  position_ = std::max(position_, position);
  const uint64_t every =
      parts_.test == nullptr ? 0 : ExamplesOf(parts_.spec.evaluate().every(), parts_.spec);
  const bool last = position_ >= static_cast<double>(TotalExamples(parts_.spec));
  // The last evaluation is made by all together.
  if (last) evaluation_due_ = false;
  if (every == 0 || last) return absl::OkStatus();
  const double interval = static_cast<double>(every);
  evaluation_due_ |= std::floor(before / interval) != std::floor(position_ / interval);
  return absl::OkStatus();
}

// By the lowest rank, without a meeting: a worker that joins just now would be waited for, while it
// itself waits for the others' next step. docs/decisions/0005-who-evaluates.md.
absl::Status TrainingAttempt::EvaluateNow() {
  WEIR_RETURN_IF_ERROR(parts_.runner.Settle());
  const bool mine = lowest();
  // So that it does not wait for who waits for it in a collective of the next step.
  if (sync_) WEIR_RETURN_IF_ERROR(TellStepsDone());
  if (sync_ || mine) WEIR_RETURN_IF_ERROR(PushState());
  if (!mine) return absl::OkStatus();
  const absl::Time began = parts_.clock.Now();
  parts_.log.Flush();
  WEIR_ASSIGN_OR_RETURN(const Metrics metrics,
                        sync_ ? evaluation_.Alone(step_, EvaluatedState::kAggregate)
                              : evaluation_.Alone(0, EvaluatedState::kOwnMeans));
  parts_.log.AddEvaluation(step_, position_, metrics);
  evaluating_ += parts_.clock.Now() - began;
  return absl::OkStatus();
}

absl::Status TrainingAttempt::PushState() {
  const std::vector<PushItem> state = parts_.runner.State();
  if (state.empty()) return absl::OkStatus();
  return updates_.PushState(state, step_);
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

}  // namespace weir
