// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rpc/parameter_endpoint.h"
#include "server/chunk.h"
#include "server/member_set.h"
#include "server/push_message.h"
#include "server/snapshot.h"
#include "server/store_plan.h"

namespace weir {

// What applying a message has come to.
struct AppliedPush {
  absl::Status status;  // not OK: of the chunk at which it stopped
  v1::PushOutcome outcome;
  bool completes = false;  // its sequence is complete with it
  ClosedChunks closed;
};

// What a change of members has closed.
struct ReconsideredSteps {
  std::vector<ClosedChunks> closed;  // by group
  bool out_of_memory = false;        // some that could close are still open
};

// The chunks that one attempt of a job has on one server, and every walk over them. Which chunks
// there are is constant; what is in them is under their own locks. Thread-safe.
class StoreChunks {
 public:
  // Both must outlive the chunks.
  StoreChunks(const StorePlan& plan, BufferPool& pool);
  StoreChunks(const StoreChunks&) = delete;
  StoreChunks& operator=(const StoreChunks&) = delete;

  // Whom open steps wait for. After it is set, Reconsider.
  CurrentMembers& members() { return members_; }

  // By group: the group step that chunks accept next.
  void StartAt(absl::Span<const uint64_t> group_steps);
  void ResumeAt(const GroupStep& step);
  // As Chunk's. Errors: ResourceExhausted - no memory; chunks before it have their values.
  absl::Status Assign(absl::Span<const SegmentTarget> segments, const Payload& payload,
                      uint64_t view_version);
  // As Chunk's, and NotFound - no such chunk here.
  absl::Status Load(ShardId shard, uint64_t chunk, const SavedChunk& saved);

  // The variable of the first segment that lacks values; nullptr: none does. Values never go.
  const VariablePlan* WithoutValues(absl::Span<const SegmentTarget> segments) const;
  // Of segments that have values. The payload is references to the chunks' buffers.
  PullResult Read(absl::Span<const SegmentTarget> segments) const;
  std::vector<ShardSnapshot> Snapshot() const;

  // Stops at the first chunk that fails.
  AppliedPush Apply(const PushMessage& message);
  // Closes what waits for nobody any more, of the steps of a sync group.
  ReconsideredSteps Reconsider(uint32_t sync_group);
  // Whom the first open chunk of the step waits for.
  std::vector<MemberInfo> Missing(const GroupStep& step) const;

 private:
  Chunk& At(const LocalShard& shard, uint64_t chunk);
  const Chunk& At(const LocalShard& shard, uint64_t chunk) const;

  const StorePlan& plan_;
  CurrentMembers members_;
  std::vector<ChunkTraits> traits_;     // by variable; constant, like what follows
  std::deque<Chunk> chunks_;            // by shard, then within it
  std::vector<size_t> first_chunk_of_;  // by local shard
  std::atomic<uint64_t> initialised_{0};
};

}  // namespace weir
