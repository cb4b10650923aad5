// SPDX-License-Identifier: Apache-2.0
// How an attempt of the job ends: with the job, or stopped by command.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <limits>
#include <variant>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"
#include "rpc/job_length.h"
#include "rpc/regime.h"
#include "worker/training_attempt.h"

namespace weir {
namespace {

double ValueOr(const std::map<std::string, double>& values, const std::string& name,
               double fallback) {
  const auto found = values.find(name);
  return found == values.end() ? fallback : found->second;
}

void PutSeconds(const StepSeconds& seconds, uint64_t steps, std::map<std::string, double>& into) {
  into["input_s"] = seconds.input;
  into["pull_s"] = seconds.pull;
  into["compute_s"] = seconds.compute;
  into["push_s"] = seconds.push;
  into["wait_s"] = seconds.wait;
  into["steps_made"] = static_cast<double>(steps);
}

// Of a step, from what all have put.
StepSeconds MeanSeconds(const std::map<std::string, double>& sums) {
  const StepSeconds seconds{ValueOr(sums, "input_s", 0), ValueOr(sums, "pull_s", 0),
                            ValueOr(sums, "compute_s", 0), ValueOr(sums, "push_s", 0),
                            ValueOr(sums, "wait_s", 0)};
  return seconds.DividedBy(ValueOr(sums, "steps_made", 0));
}

// Each puts its own into a barrier whose result is to say who has met there.
constexpr char kRank[] = "rank/";
constexpr char kTried[] = "tried";  // to save the final checkpoint

std::string NameOfTurn(const std::string& name, int turn) {
  return turn == 1 ? name : absl::StrCat(name, "-", turn);
}

// The same for all who have met, whatever views they have.
uint32_t LowestRank(const BarrierResult& met) {
  uint32_t lowest = std::numeric_limits<uint32_t>::max();
  for (const auto& [name, value] : met.sums) {
    absl::string_view digits = name;
    uint32_t rank = 0;
    if (!absl::ConsumePrefix(&digits, kRank) || !absl::SimpleAtoi(digits, &rank)) continue;
    lowest = std::min(lowest, rank);
  }
  return lowest;
}

}  // namespace

absl::Status TrainingAttempt::CheckTrained() const {
  const auto& groups = parts_.runner.declaration().groups;
  if (groups.empty() || step_ == first_step_ || updates_.total() > 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "nothing was trained in ", step_ - first_step_,
      " steps: no step function has called Step() of an optimizer, such as ", groups[0].name));
}

// One worker pushes what a local optimizer has come to. Where it has died over the last step, no
// next one mends that: those who are left tell it once more, before they ask for it.
absl::Status TrainingAttempt::RestateLocalOptimizers() {
  if (step_ == first_step_) return absl::OkStatus();
  WEIR_ASSIGN_OR_RETURN(std::vector<LocalValues> optimizers, parts_.runner.LocalOptimizers());
  bool known = optimizers.empty();
  for (int turn = 1; !known; ++turn) {
    const auto told = [](const LocalValues& each) { return absl::StrCat("told/", each.group); };
    std::map<std::string, double> mine = {{MyRank(), 1}};
    for (const LocalValues& each : optimizers) mine[told(each)] = each.told ? 1 : 0;
    WEIR_ASSIGN_OR_RETURN(const BarrierResult met,
                          parts_.session.Barrier(NameOfTurn("stepped", turn), mine, Meeting()));
    known = true;
    for (LocalValues& each : optimizers) {
      if (ValueOr(met.sums, told(each), 0) > 0) continue;
      known = false;
      each.told = IsMe(LowestRank(met));
      WEIR_RETURN_IF_ERROR(updates_.Restate(each.group, each.values, each.told));
    }
  }
  return absl::OkStatus();
}

// Where a group has several updates in a step, or none, servers see that the step is over when the
// next one comes, or somebody asks for the weights after it. So all ask, before one saves or reads
// these. What the workers compute themselves is not taken over: a server's may be older.
absl::Status TrainingAttempt::TellStepsDone() {
  const size_t groups = parts_.runner.declaration().groups.size();
  if (!in_step() || updates_.ShowTheEndOfStepBefore(step_, groups)) return absl::OkStatus();
  PullOptions options;
  options.step = step_;
  options.timeout = timeout_;
  std::vector<PullItem> parameters;
  std::deque<std::vector<std::byte>> aside;
  for (PullItem item : parts_.runner.Storage()) {
    const uint32_t group = parts_.runner.declaration().variables[item.variable].group;
    if (group == 0) continue;
    if (std::holds_alternative<Average>(parts_.runner.declaration().groups[group - 1].optimizer)) {
      item.data = aside.emplace_back(item.bytes).data();
    }
    parameters.push_back(item);
  }
  return parts_.client.Pull(parameters, options).status();
}

// A checkpoint that cannot be saved is no reason to lose the evaluation too.
absl::Status TrainingAttempt::SaveNow(RunSummary& summary) {
  const auto saved = parts_.session.SaveCheckpoint(parts_.log.last_metrics());
  if (saved.ok()) summary.checkpoint = *saved;
  if (absl::IsAborted(saved.status())) return saved.status();
  summary.saved = saved.status();
  if (!saved.ok()) spdlog::error("no final checkpoint: {}", saved.status().ToString());
  return absl::OkStatus();
}

// The lowest of those who have met saves. Where it dies over it, the next meeting shows that, and
// the lowest of that one does.
absl::Status TrainingAttempt::SaveFinal(BarrierResult met, RunSummary& summary) {
  const bool saves = parts_.spec.checkpoint().at_end();
  for (int turn = 1;; ++turn) {
    std::map<std::string, double> mine = {{MyRank(), 1}};
    if (saves && IsMe(LowestRank(met))) {
      WEIR_RETURN_IF_ERROR(SaveNow(summary));
      mine[kTried] = 1;
    }
    WEIR_ASSIGN_OR_RETURN(met, parts_.session.Barrier(NameOfTurn("saved", turn), mine, Meeting()));
    if (saves && ValueOr(met.sums, kTried, 0) == 0) continue;
    // Asked while nobody can have left yet.
    summary.lead = IsMe(LowestRank(met));
    return absl::OkStatus();
  }
}

std::string TrainingAttempt::MyRank() const {
  return absl::StrCat(kRank, parts_.session.Info().rank);
}

bool TrainingAttempt::IsMe(uint32_t rank) const {
  return parts_.session.Info().rank == rank;
}

absl::StatusOr<RunSummary> TrainingAttempt::End() {
  RunSummary summary;
  const double rate = static_cast<double>(examples_) / TrainSeconds();
  WEIR_RETURN_IF_ERROR(RestateLocalOptimizers());
  WEIR_RETURN_IF_ERROR(PushState());
  WEIR_RETURN_IF_ERROR(TellStepsDone());
  const double steps_made = leads_group() ? static_cast<double>(step_ - first_step_) : 0;
  std::map<std::string, double> mine = {
      {"steps", steps_made}, {"rate", rate}, {"late", static_cast<double>(updates_.late_pushes())}};
  PutSeconds(seconds_, steps_made_, mine);
  mine[MyRank()] = 1;
  const auto loss = parts_.log.last_metrics().find("loss");
  if (loss != parts_.log.last_metrics().end()) {
    mine["loss"] = loss->second;
    mine["losses"] = 1;
  }
  WEIR_ASSIGN_OR_RETURN(const BarrierResult all, parts_.session.Barrier("end", mine, Meeting()));
  WEIR_RETURN_IF_ERROR(SaveFinal(all, summary));
  Metrics test;
  if (parts_.test != nullptr) {
    WEIR_ASSIGN_OR_RETURN(test, evaluation_.Together("evaluate-final", sync_ ? step_ : 0));
  }

  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  summary.test_accuracy = ValueOr(test, "accuracy", kNone);
  summary.test_loss = ValueOr(test, "loss", kNone);
  summary.train_loss = ValueOr(all.sums, "loss", kNone) / ValueOr(all.sums, "losses", 1);
  const double steps = ValueOr(all.sums, "steps", 0);
  summary.steps = sync_ ? step_ : info_.resume_step + static_cast<uint64_t>(steps);
  // What workers that are gone had done counts too.
  summary.examples = sync_    ? ExamplesAfterSteps(summary.steps, parts_.spec)
                     : ended_ ? TotalExamples(parts_.spec)
                              : static_cast<uint64_t>(position_);
  // Not where this worker is, which in `async` is a guess.
  if (summary.lead && parts_.test != nullptr)
    parts_.log.AddEvaluation(step_, static_cast<double>(summary.examples), test);
  summary.samples_per_second = ValueOr(all.sums, "rate", 0);
  summary.step_seconds = MeanSeconds(all.sums);
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
  summary.step_seconds = seconds_.DividedBy(static_cast<double>(steps_made_));
  summary.workers = static_cast<uint32_t>(parts_.session.Info().members.size());
  return summary;
}

}  // namespace weir
