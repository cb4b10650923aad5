// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/mutex.h"
#include "server/buffer_pool.h"
#include "server/member_set.h"
#include "server/parked_reply.h"
#include "server/push_header.h"
#include "server/sequence_tracker.h"
#include "server/snapshot.h"
#include "server/step_accumulator.h"
#include "server/store_plan.h"

namespace weir {

// Distance of two slots of a chunk: its weights, in whole cache lines, of an odd number where it is
// large, so that slots do not lie at a power-of-two distance.
size_t SlotStrideBytes(uint64_t weights_bytes);

// What the chunks of a variable share.
struct ChunkTraits {
  const VariablePlan* variable = nullptr;  // must outlive the chunk, like what follows
  BufferPool* pool = nullptr;
  const CurrentMembers* members = nullptr;
  bool deterministic = false;
  uint64_t quorum = 0;  // of a sync step: StepAccumulator; with one, late pushes are dropped
  v1::RateScale rate_scale = v1::RATE_SCALE_UNSPECIFIED;  // async
};

// What became of a chunk's part of a push.
struct ChunkOutcome {
  bool repeated = false;   // it had been counted before
  bool completes = false;  // the sequence is complete with it
  bool late = false;       // its step had closed without it: counted, but dropped
  uint64_t staleness = 0;  // updates between the weights that the push was made on and now
};

// What closing chunks set free, collected while they are locked and acted on afterwards.
struct ClosedChunks {
  uint64_t count = 0;
  std::vector<std::shared_ptr<ParkedReply>> finished;  // their last chunk has closed
};

// What a checkpoint holds of a chunk.
struct SavedChunk {
  uint64_t version = 0;
  uint64_t examples = 0;
  absl::Span<const std::byte> weights;
  absl::Span<const std::byte> slots;  // one after another; empty: untouched
};

// {version, weights, slots} of a run of elements. Buffers are immutable while somebody else holds
// them: an update writes in place where nobody does, else into spare buffers that take their place,
// so a reader sees a whole version however slow it is, and nobody waits for it.
//
// Thread-safe. Lock order: the store's, then a chunk's, then a leaf's (SequenceTracker,
// CurrentMembers, the buffer pool). No two chunks are locked at once, and nothing is called back
// under the lock.
class Chunk {
 public:
  struct Reading {
    uint64_t version = 0;
    uint64_t examples = 0;
    BufferRef weights;  // null: not initialised
  };

  Chunk(const ChunkTraits& traits, uint64_t elements, uint64_t index_in_group)
      : traits_(traits), elements_(elements), index_(index_in_group) {}

  uint64_t bytes() const { return elements_ * traits_.variable->element_bytes; }
  bool initialised() const;
  Reading Read() const;
  ChunkSnapshot Snapshot() const;

  // Initial values, by the one whose turn it was in the view of this version; without effect where
  // an update has been applied or counted already, or values of a later view are here. True: the
  // chunk had none before.
  // Errors: ResourceExhausted - no memory.
  absl::StatusOr<bool> Assign(const ChunkValues& values, uint64_t view_version);
  // Errors: DataLoss - sizes that are not this chunk's; ResourceExhausted - no memory.
  absl::Status Load(const SavedChunk& saved);
  // The group step that the chunk accepts next, in step. What an open one has got is dropped.
  void StartAt(uint64_t group_step);
  // The same of one sync group; the others are not disturbed.
  void ResumeAt(uint32_t sync_group, uint64_t group_step);

  // A push of a parameter that is applied at once.
  // Errors, here and below: ResourceExhausted - no memory, the chunk has not changed.
  absl::StatusOr<ChunkOutcome> Apply(const PushHeader& push, const ChunkValues& values,
                                     SequenceTracker& tracker);

  // A push of a parameter that counts towards its sync step, which closes when all members have
  // contributed, or enough of them. `reply`, where not null, waits for that.
  // Errors: Aborted - the step was closed without this worker, which is no member any more.
  absl::StatusOr<ChunkOutcome> Contribute(const PushHeader& push, const ChunkValues& values,
                                          SequenceTracker& tracker,
                                          const std::shared_ptr<ParkedReply>& reply,
                                          ClosedChunks& closed);
  // After a change of members: closes the sync group's step if it waits for nobody any more.
  absl::Status Reconsider(uint32_t sync_group, ClosedChunks& closed);
  // Whom the group step of the sync group waits for here; nobody, where it is not open.
  std::vector<MemberInfo> Missing(uint32_t sync_group, uint64_t group_step) const;

  // A push of state: replaces the worker's value, and the chunk by the aggregate of members'
  // values.
  absl::StatusOr<ChunkOutcome> WriteState(const PushHeader& push, const ChunkValues& values,
                                          SequenceTracker& tracker);

 private:
  struct StateEntry {
    WorkerId worker{};
    double weight = 0;
    BufferRef values;
  };
  // The step of a sync group that is open here, or comes next.
  struct GroupPlace {
    uint32_t sync_group = 0;
    uint64_t group_step = 0;
    uint64_t step = 0;  // of the contributions
    double rate_scale = 1;
    StepAccumulator accumulator;
    std::vector<std::shared_ptr<ParkedReply>> parked{};
  };
  // Hands the gradient of an update to the rule.
  using Feed = absl::FunctionRef<void(const UpdateContext&, const ChunkSpan&)>;

  // Where an update writes what somebody else still reads; null: in place.
  struct Spare {
    BufferRef weights;
    BufferRef slots;
  };

  absl::Status EnsureSlots() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Spare> PrepareUpdate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Update(double rate_scale, uint64_t examples, double gradient_scale, Spare spare, Feed feed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t StalenessOf(const ChunkValues& values) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  double RateScaleOf(const PushHeader& push, const ChunkValues& values) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status UpdateFrom(const PushHeader& push, const ChunkValues& values)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const GroupPlace* FindPlace(uint32_t sync_group) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  GroupPlace& PlaceOf(uint32_t sync_group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CloseOrPark(GroupPlace& place, const MemberSet& members,
                           const std::shared_ptr<ParkedReply>& reply, ClosedChunks& closed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CloseStep(GroupPlace& place, ClosedChunks& closed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void ReleaseReplies(GroupPlace& place, ClosedChunks& closed);
  void NoteStep(bool updated) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void Park(GroupPlace& place, const std::shared_ptr<ParkedReply>& reply);
  absl::Status Aggregate(const MemberSet& members, WorkerId last)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ChunkTraits& traits_;
  const uint64_t elements_;
  const uint64_t index_;  // among the chunks of the group on this server

  mutable Mutex mutex_;
  uint64_t version_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t examples_ ABSL_GUARDED_BY(mutex_) = 0;
  bool old_ ABSL_GUARDED_BY(mutex_) = false;          // ChunkSnapshot.old
  uint64_t assigned_in_ ABSL_GUARDED_BY(mutex_) = 0;  // version of the view; 0: not assigned
  BufferRef weights_ ABSL_GUARDED_BY(mutex_);
  BufferRef slots_ ABSL_GUARDED_BY(mutex_);

  // In steps: where each sync group is (in sync there is one), made when first needed.
  uint64_t first_group_step_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::unique_ptr<GroupPlace>> places_ ABSL_GUARDED_BY(mutex_);

  std::vector<StateEntry> state_ ABSL_GUARDED_BY(mutex_);  // the latest value of each worker
};

}  // namespace weir
