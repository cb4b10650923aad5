// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "rpc/regime.h"
#include "worker/client_collectives.h"
#include "worker/client_updates.h"
#include "worker/data_feed.h"
#include "worker/evaluation.h"
#include "worker/run_summary.h"
#include "worker/training_parts.h"
#include "worker/training_steps.h"

namespace weir {

// Training from where an attempt of the job starts to the job's end, or to the rollback that ends
// the attempt. Used from one thread, once.
class TrainingAttempt final : public TrainingSteps {
 public:
  TrainingAttempt(TrainingParts& parts, const JobInfo& info);

  // The summary has what training knows; names, times and counts of members are filled in by the
  // caller. Errors: Aborted - rolled back; Cancelled - interrupted; those of the client, the
  // session, the runner.
  absl::StatusOr<RunSummary> Run();

  bool Next() override;
  absl::StatusOr<Metrics> Step() override;
  void Log(const absl::StatusOr<Metrics>& metrics) override;
  ReplicaStep Place() const override;

 private:
  absl::Status Start();
  absl::Status Initialise();
  bool StopsHere(const JobInfo& info) const;
  absl::Status DoWhatIsDue();
  absl::StatusOr<Metrics> TrainStep(const FeedItem& item);
  void BeginStep(const FeedItem& item);
  void EndStep(const FeedItem& item);
  StepSeconds TakeSeconds();
  absl::Status AfterStep(double position);
  void LogStep();
  absl::Status EvaluateNow();
  absl::Status PushState();
  // training_input.cc
  absl::Status Fetch();
  absl::Status StepWithoutExamples(const FeedItem& item);
  absl::Status EndOfData();
  absl::Status MayWaitForInput(absl::Time& until) const;
  absl::Status TakeInput(const FeedItem& item);
  absl::StatusOr<RunSummary> EndWithInput();
  // training_end.cc
  absl::Status CheckTrained() const;
  absl::Status RestateLocalOptimizers();
  absl::Status TellStepsDone();
  absl::StatusOr<RunSummary> End();
  absl::StatusOr<RunSummary> EndEarly();
  absl::Status SaveNow(RunSummary& summary);
  absl::Status SaveFinal(BarrierResult met, RunSummary& summary);
  std::string MyRank() const;  // as a barrier is told of it
  bool IsMe(uint32_t rank) const;
  // For barriers: among those that have done the same steps.
  BarrierOptions Meeting() const;
  bool over() const { return stopped_ || ended_ || !input_ended_.empty(); }
  bool lowest() const;  // of them
  bool leads_group() const;
  // Of the job, as far as this worker knows how far the others are.
  uint64_t GlobalStep() const;
  bool in_step() const { return sync_ || SyncGroups(parts_.spec) > 0; }
  // In logs: outside `sync` a worker counts its own.
  const char* step_name() const { return sync_ ? "step" : "own_step"; }
  double TrainSeconds() const;

  TrainingParts& parts_;
  JobInfo info_;
  const bool sync_;
  const bool bounded_;
  const absl::Duration timeout_;
  std::unique_ptr<DataFeed> feed_;
  ClientUpdates updates_;
  mutable ClientCollectives collectives_;
  Evaluation evaluation_;
  uint64_t first_step_ = 0;
  uint64_t step_ = 0;                  // the next to run
  uint64_t examples_ = 0;              // of this worker in this attempt
  double position_ = 0;                // of the job: the farthest seen
  absl::Status status_;                // the first error sticks
  bool stopped_ = false;               // by command
  bool ended_ = false;                 // the job's length has been reached
  std::string input_ended_;            // how; empty: it has not
  absl::optional<FeedItem> item_;      // of the next step
  std::vector<ReplicaBatch> batches_;  // the same, or of the one that runs
  absl::optional<StepRecord> record_;  // of the last one, until it is known whether it is logged
  absl::Duration input_;               // that the next step has waited for its batch
  absl::Time step_began_;
  StepSeconds between_;  // waited for deferred updates since the step before
  StepSeconds seconds_;  // of all steps of this attempt
  uint64_t steps_made_ = 0;
  bool evaluation_due_ = false;
  absl::Time began_;
  absl::Duration evaluating_;
};

}  // namespace weir
