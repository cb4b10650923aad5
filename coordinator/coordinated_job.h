// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "coordinator/barrier_table.h"
#include "coordinator/checkpoint_choice.h"
#include "coordinator/checkpoint_saver.h"
#include "coordinator/job_context.h"
#include "coordinator/range_dispenser.h"
#include "coordinator/restoration.h"
#include "coordinator/roster.h"
#include "coordinator/step_change.h"
#include "coordinator/torn_pushes.h"
#include "weir/v1/coordinator.pb.h"
#include "weir/v1/coordinator_state.pb.h"

namespace weir {

// One run of a job as the coordinator has it: its members, its state, its view. Methods are named
// after the RPCs whose semantics they have (coordinator.proto). Every method runs in a turn; Finish
// ends each turn that touched the job. Thread-compatible.
//
//   WAITING --(members, declaration, servers)--> INITIALISING or RESTORING --> RUNNING --> FINISHED
//      ^                                              |  ^                        |   \--> STOPPED
//      |                                              |  |                        |    \-> FAILED
//      +------------(no live server)------------------+  +------(a server lost)---+
class CoordinatedJob {
 public:
  // A new run of a checked spec.
  CoordinatedJob(const JobContext& context, const v1::JobSpec& spec, uint64_t run_id,
                 uint64_t created_unix_ms);
  // What a former life of the coordinator kept.
  CoordinatedJob(const JobContext& context, const v1::JobRecord& record,
                 const v1::Declaration& declaration, const absl::optional<v1::RangesRecord>& ranges,
                 Turn& turn);
  CoordinatedJob(const CoordinatedJob&) = delete;
  CoordinatedJob& operator=(const CoordinatedJob&) = delete;

  absl::StatusOr<v1::RegisterReply> Register(const v1::RegisterRequest& request, Turn& turn);
  absl::Status Heartbeat(const v1::HeartbeatRequest& request, const Turn& turn);
  absl::StatusOr<v1::LeaveReply> Leave(const v1::LeaveRequest& request, Turn& turn);
  absl::Status Declare(const v1::DeclareRequest& request, Turn& turn);
  absl::Status ReportInitialised(const v1::ReportInitialisedRequest& request, Turn& turn);
  void Barrier(const v1::BarrierRequest& request, absl::Time deadline, BarrierTable::Done done,
               Turn& turn);
  absl::StatusOr<v1::TakeRangesReply> TakeRanges(const v1::TakeRangesRequest& request, Turn& turn);
  absl::Status ReportProgress(const v1::ReportProgressRequest& request, const Turn& turn);
  absl::Status ReportCut(const v1::ReportCutRequest& request, Turn& turn);
  void SaveCheckpoint(const v1::SaveCheckpointRequest& request, absl::Time deadline,
                      CheckpointSaver::Done done, Turn& turn);
  void Stop(const std::string& reason, Turn& turn);

  // A server tells of a worker that has left; perhaps not for the first time.
  void NoteDeparture(const v1::Departure& departure);
  // A server has come, gone, or been restarted.
  void OnServersChanged(Turn& turn);
  // Now and then: leases, timeouts, joins, checkpoints that are due.
  void Tick(Turn& turn);
  // The coordinator stops: whoever waits is told.
  void Shutdown(const absl::Status& why, Turn& turn);
  // Publishes the view and keeps the record, where they have changed.
  void Finish(Turn& turn);

  uint64_t run_id() const { return view_.run_id(); }
  const std::string& name() const { return view_.name(); }
  const v1::JobSpec& spec() const { return view_.spec(); }
  bool live() const;
  uint64_t created_unix_ms() const { return created_unix_ms_; }
  uint64_t finished_unix_ms() const { return finished_unix_ms_; }
  // No worker is left.
  bool abandoned() const { return roster_.empty(); }
  bool HasWorker(WorkerId worker) const { return roster_.Find(worker) != nullptr; }
  // Errors: Unavailable - one of its workers may be dead: Roster::CheckAllLive.
  absl::Status CheckWorkersLive(WorkerId newcomer, const Turn& turn);
  // Of a run that has ended. Errors: FailedPrecondition - it has something that a fresh run would
  // push out; names what to say to go on from it or to begin anew.
  absl::Status CheckMayBeForgotten() const;
  // What it has trained is in the servers' memory, or in a checkpoint from which it goes on.
  bool HoldsProgress() const;
  SharedWatchEvent Event() const;
  v1::JobStatus Status(absl::Time now) const;
  uint64_t BytesOn(const std::string& server) const;

  // --- For its parts: StepChange, CheckpointSaver and Restoration.
  const JobContext& context() const { return context_; }
  const v1::JobView& view() const { return view_; }
  Roster& roster() { return roster_; }
  RangeDispenser* ranges() { return ranges_ ? &*ranges_ : nullptr; }
  CheckpointSaver& saver() { return saver_; }
  Restoration& restoration() { return restoration_; }
  CheckpointChoice& choice() { return choice_; }
  // Of the present attempt; null: first values were assigned.
  const SharedManifest& source() const { return source_; }
  v1::JobView& ChangeView();
  void Keep() { record_changed_ = true; }
  void KeepRanges() { ranges_changed_ = true; }
  uint64_t NextCut();
  // Whose ranges of data the worker uses: its own, or its sync group's.
  RangeHolder HolderOf(WorkerId worker) const;
  // JobStatus.step and .examples.
  uint64_t StepsDone() const;
  uint64_t ExamplesDone() const;
  std::vector<v1::ServerInfo> Holders() const;
  // False: another change is under way.
  bool StartChange(StepChange::Options options, StepChange::Finished finished, Turn& turn);
  StepChange* FindChange(uint64_t id);
  void EndChange(Turn& turn);
  const StepChange* change() const { return change_.get(); }
  void Run(Turn& turn);
  void Rollback(const std::string& why, Turn& turn);
  void End(v1::JobState state, const std::string& message, Turn& turn);
  // For asynchronous calls: fn(CoordinatedJob&, Turn&, Result) runs in a turn of its own.
  template <typename Result, typename Fn>
  auto Reenter(Fn fn) const {
    return [enter = context_.enter, run = run_id(), fn = std::move(fn)](Result result) mutable {
      enter(run,
            [fn = std::move(fn), result = std::move(result)](
                CoordinatedJob& job, Turn& turn) mutable { fn(job, turn, std::move(result)); });
    };
  }

 private:
  absl::Status CheckAttempt(uint64_t attempt) const;
  void TakeReport(WorkerId worker, const v1::Progress& progress, const Turn& turn);
  void KeepProgress(const Turn& turn);
  // Members.
  void AddMember(WorkerId worker, const MemberPlace& place);
  void RemoveWorker(WorkerId worker, const std::string& why, bool finished, Turn& turn);
  void AfterDeparture(const std::string& why, Turn& turn);
  void ElectInitialiser();
  void AdmitJoining(Turn& turn);
  void SettleStop(Turn& turn);
  void OnStopSettled(uint32_t sync_group, const StepChange::Result& result, Turn& turn);
  absl::optional<uint32_t> BeginSyncGroups(std::vector<WorkerId>& joining);
  uint64_t HighestStep(uint32_t sync_group) const;
  v1::JobView ViewWith(const std::vector<WorkerId>& joining, const MemberPlace& place);
  void OnAdmitted(const std::vector<WorkerId>& joining, const MemberPlace& place,
                  const StepChange::Result& result, Turn& turn);
  void EndLeases(Turn& turn);
  void TickOrphan(Turn& turn);
  // Start and rollback.
  absl::Status CheckQuota(const v1::Declaration& declaration) const;
  void TryStart(Turn& turn);
  void Wait(const std::string& message);
  std::string WhatIsMissing() const;
  absl::Status Place(const v1::Manifest* source);
  void BeginAttempt(const SharedManifest& source, Turn& turn);
  void StartRanges(const v1::Manifest* source);
  void FillWaits(const Roster::Worker& member, v1::WorkerStatus& status) const;
  v1::JobRecord Record() const;

  const JobContext& context_;
  v1::JobView view_;  // with the declaration
  Roster roster_;
  BarrierTable barriers_;
  TornPushes torn_pushes_;
  absl::optional<RangeDispenser> ranges_;  // `async` with a training set
  CheckpointSaver saver_;
  std::unique_ptr<StepChange> change_;
  uint64_t created_unix_ms_ = 0;
  uint64_t finished_unix_ms_ = 0;
  bool any_finished_ = false;
  absl::Time keep_progress_at_ = absl::InfinitePast();
  std::pair<uint64_t, uint64_t> kept_progress_;  // steps and examples
  uint64_t last_change_ = 0;
  uint64_t last_cut_ = 0;
  uint32_t next_sync_group_ = 0;  // numbers of groups that are gone are not used again
  uint64_t last_version_ = 0;     // of views given out, those of changes included
  uint64_t last_generation_ = 0;
  absl::Time orphaned_at_ = absl::InfiniteFuture();
  bool ending_orphan_ = false;
  absl::Time settle_by_ = absl::InfinitePast();  // the last step of sync groups
  absl::Time admit_at_ = absl::InfinitePast();   // not before: a join has failed
  int admit_failures_ = 0;
  uint64_t admitting_version_ = 0;  // of the view in the CommitStep of a join
  uint64_t admitting_generation_ = 0;
  uint64_t undone_from_ = 0;  // steps done before the rollback that is being carried out
  CheckpointChoice choice_{*context_.checkpoints};
  SharedManifest source_;
  Restoration restoration_{*this};
  std::map<std::string, uint64_t> bytes_on_;  // by server

  bool view_changed_ = false;
  bool record_changed_ = false;
  bool declaration_changed_ = false;
  bool ranges_changed_ = false;
  bool restore_due_ = false;  // Restore is sent with the view that this turn publishes
};

}  // namespace weir
