// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "rpc/parameter_endpoint.h"
#include "server/cut_gate.h"
#include "server/group_collectives.h"
#include "server/push_message.h"
#include "server/request_check.h"
#include "server/staleness_gate.h"
#include "server/step_gate.h"
#include "server/step_ledger.h"
#include "server/store_chunks.h"
#include "server/store_options.h"
#include "server/store_plan.h"
#include "server/waiting.h"
#include "weir/v1/server_control.pb.h"

namespace weir {

// One attempt of one job on one server: its shards' chunks, and the pushes that wait.
//
// Thread-safe. The store's lock guards who is a member, what waits and which steps are open, never
// the chunks' contents: pushes and pulls work on chunks under the chunks' own short locks. Lock
// order: chunk.h. Callbacks run, and payloads are released, without any lock (StoreEffects).
class ParameterStore final : public std::enable_shared_from_this<ParameterStore> {
 public:
  using Options = StoreOptions;

  // Errors: InvalidArgument - the view contradicts itself; ResourceExhausted - over the memory
  // limit.
  static absl::StatusOr<std::shared_ptr<ParameterStore>> Create(Options options,
                                                                const v1::JobView& view);
  ~ParameterStore();

  uint64_t attempt() const { return attempt_; }
  uint64_t shard_map_version() const { return shard_map_version_; }
  const StorePlan& plan() const { return *plan_; }

  // Of the same attempt and shard map. Older views than the one in force are ignored.
  void ApplyView(const v1::JobView& view);
  // Ends all that waits with `why`, and takes nothing more.
  void End(const absl::Status& why);
  // `idle` is called when no push is being applied, held or parked.
  void WhenIdle(Task idle);

  // As ParameterEndpoint, after the server has found the store.
  void Pull(const v1::PullRequest& request, absl::Time deadline, ParameterEndpoint::PullDone done);
  void Push(const v1::PushRequest& request, Payload payload, absl::Time deadline,
            PushReplyTo reply);
  // Errors: Aborted - out of date, no initialiser; Unavailable; InvalidArgument; ResourceExhausted.
  absl::Status Assign(const v1::AssignRequest& request, const Payload& payload);
  void Reduce(const v1::ReduceRequest& request, Payload payload, absl::Time deadline,
              ParameterEndpoint::ReduceDone done);

  // As server_control.proto defines them, after the term is checked. Sync alone.
  absl::StatusOr<v1::PrepareStepReply> PrepareStep(const v1::PrepareStepRequest& request);
  absl::Status CommitStep(const v1::CommitStepRequest& request);
  absl::Status AbortStep(const v1::AbortStepRequest& request);

  // In sync the cut that CommitStep has set, once; in async the one that the workers have marked:
  // waits until each worker's pushes up to its mark are complete, 2 s at most. References, no
  // copies. Errors: Aborted - no such cut, or not complete in time: try again with a new one;
  // ResourceExhausted - the memory limit leaves no room for one more state.
  void TakeCut(const CutRequest& request, absl::Time deadline, CutDone done);

  // Errors: NotFound - no such chunk here; DataLoss - sizes that are not the chunk's.
  absl::Status LoadChunk(ShardId shard, uint64_t chunk, const SavedChunk& saved);
  // The job goes on from here; chunks that were not loaded are not served. `group_steps`: [0]
  // state's, then by group. Errors: FailedPrecondition - pushes have been taken; those of End.
  absl::Status FinishRestore(absl::Span<const uint64_t> group_steps);

 private:
  // What a push has to wait for before it is applied.
  enum class Wait { kNothing, kChange, kCut, kOrder, kStep };

  ParameterStore(Options options, const v1::JobView& view, std::unique_ptr<const StorePlan> plan,
                 MemoryBudget::Reservation reservation);
  void RunEffects(StoreEffects& effects);

  // parameter_store.cc: views, ends, deadlines.
  void SetView(const v1::JobView& view, StoreEffects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AbandonStepsOfNobody() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropWorker(WorkerId worker, StoreEffects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteDeparture(WorkerId worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  StepLedger& LedgerOf(uint32_t sync_group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The chunks of a group that have closed a step of a sync group.
  void NoteClosed(uint32_t sync_group, uint32_t group, const ClosedChunks& closed,
                  StoreEffects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReconsiderSteps(StoreEffects& effects);
  void ReconsiderLater();
  void Advance(StoreEffects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddDeadline(uint64_t id, absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ArmDeadlineTimer(absl::Time due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnDeadline(absl::Time armed_for);
  void Expire(uint64_t id, StoreEffects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // store_pull.cc
  absl::Status CheckContextNow(const v1::RequestContext& context);
  absl::Status CheckServing(absl::Span<const SegmentTarget> segments);
  absl::Status NoValuesYet(const VariablePlan& variable);
  absl::StatusOr<PullResult> ReadWeights(absl::Span<const SegmentTarget> segments);
  void AddPull(WaitingPull pull, absl::Time deadline, StoreEffects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayPull(const WaitingPull& pull) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReleasePulls(StoreEffects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string MissingBelow(const WaitingPull& pull) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // store_push.cc
  absl::StatusOr<std::unique_ptr<PushMessage>> CheckMessage(const v1::PushRequest& request,
                                                            Payload& payload, Carrier carrier);
  void Admit(std::unique_ptr<PushMessage> message, StoreEffects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteProgress(const PushHeader& push) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Wait> WaitOf(const PushMessage& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OpenStepOf(const PushMessage& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Describe(Wait wait, const PushHeader& push) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Hold(std::unique_ptr<PushMessage> message, StoreEffects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::unique_ptr<PushMessage> TakeHeld(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReadmitHeld(StoreEffects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Start(std::unique_ptr<PushMessage> message, StoreEffects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ApplyMessage(std::unique_ptr<PushMessage> message, StoreEffects& effects);
  void FinishMessage(std::unique_ptr<PushMessage> message, AppliedPush applied,
                     StoreEffects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AnswerParked(ParkedReply& parked, const absl::Status& status, StoreEffects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string MissingIn(const GroupStep& step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // store_reduce.cc
  absl::StatusOr<std::shared_ptr<CollectiveTable>> EnterStep(const ReduceCall& call);

  // store_cuts.cc
  void ExpireChange(uint64_t change_id);
  void TryChange(StoreEffects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeSyncCut(const CutRequest& request, absl::Time deadline, CutDone done,
                   StoreEffects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeAsyncCut(const CutRequest& request, absl::Time deadline, CutDone done,
                    StoreEffects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TryAsyncCut(StoreEffects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<bool> MarksAreReached() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AnswerCut(absl::StatusOr<StoreSnapshot> snapshot, StoreEffects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ArmCutTimer(uint64_t cut) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveUpCut(uint64_t cut);
  void DropKeptCut(uint64_t cut);
  absl::StatusOr<StoreSnapshot> Snapshot(uint64_t step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckNotOld(const StoreSnapshot& snapshot) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const uint64_t run_id_;
  const uint64_t attempt_;
  const uint64_t shard_map_version_;
  const std::unique_ptr<const StorePlan> plan_;
  const bool alone_;    // the job has one worker
  StoreChunks chunks_;  // its members() are set together with members_
  std::atomic<uint64_t> global_step_{0};
  std::atomic<bool> retry_armed_{false};  // steps that lacked memory are reconsidered soon

  Mutex mutex_;
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);  // not OK: why
  MemoryBudget::Reservation reservation_ ABSL_GUARDED_BY(mutex_);
  NewestView view_ ABSL_GUARDED_BY(mutex_);
  bool restored_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<const MemberSet> members_ ABSL_GUARDED_BY(mutex_);

  absl::flat_hash_map<CutGate::Mark, std::shared_ptr<SequenceTracker>> trackers_
      ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> pushes_ ABSL_GUARDED_BY(mutex_);  // complete ones, by group (async)
  std::vector<uint64_t> first_group_steps_ ABSL_GUARDED_BY(mutex_);  // of the attempt, by group
  uint64_t first_step_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint32_t, StepLedger> ledgers_ ABSL_GUARDED_BY(mutex_);  // by sync group
  GroupCollectives collectives_ ABSL_GUARDED_BY(mutex_);
  StalenessGate staleness_gate_ ABSL_GUARDED_BY(mutex_);  // of bounded_staleness alone
  StepGate gate_ ABSL_GUARDED_BY(mutex_);
  CutGate cut_gate_ ABSL_GUARDED_BY(mutex_);
  uint64_t cut_timer_for_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<WaitingCut> waiting_cut_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<KeptCut> kept_cut_ ABSL_GUARDED_BY(mutex_);

  WaitingCalls waiting_ ABSL_GUARDED_BY(mutex_);
  uint64_t applying_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint32_t, uint64_t> applying_in_ ABSL_GUARDED_BY(mutex_);  // of them, by sync group
  std::vector<Task> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
