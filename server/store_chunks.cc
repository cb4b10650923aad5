// SPDX-License-Identifier: Apache-2.0
#include "server/store_chunks.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace weir {

StoreChunks::StoreChunks(const StorePlan& plan, BufferPool& pool) : plan_(plan) {
  traits_.reserve(plan_.variables().size());  // chunks point into it
  for (const VariablePlan& variable : plan_.variables()) {
    traits_.push_back({.variable = &variable,
                       .pool = &pool,
                       .members = &members_,
                       .deterministic = plan_.deterministic(),
                       .quorum = plan_.quorum(),
                       .rate_scale = plan_.rate_scale()});
  }
  for (const LocalShard& local : plan_.shards()) {
    first_chunk_of_.push_back(chunks_.size());
    const Shard& shard = local.shard;
    for (uint64_t c = 0; c < shard.num_chunks(); ++c) {
      const uint64_t elements =
          std::min(shard.chunk_elements, shard.elements - c * shard.chunk_elements);
      chunks_.emplace_back(traits_[static_cast<size_t>(shard.variable)], elements,
                           local.first_chunk + c);
    }
  }
}

const Chunk& StoreChunks::At(const LocalShard& shard, uint64_t chunk) const {
  return chunks_[first_chunk_of_[static_cast<size_t>(&shard - plan_.shards().data())] + chunk];
}

Chunk& StoreChunks::At(const LocalShard& shard, uint64_t chunk) {
  return const_cast<Chunk&>(std::as_const(*this).At(shard, chunk));
}

void StoreChunks::StartAt(absl::Span<const uint64_t> group_steps) {
  for (const LocalShard& shard : plan_.shards()) {
    for (uint64_t c = 0; c < shard.shard.num_chunks(); ++c) {
      At(shard, c).StartAt(group_steps[shard.variable->group]);
    }
  }
}

void StoreChunks::ResumeAt(const GroupStep& step) {
  for (const LocalShard& shard : plan_.shards()) {
    if (shard.variable->group != step.group) continue;
    for (uint64_t c = 0; c < shard.shard.num_chunks(); ++c) {
      At(shard, c).ResumeAt(step.sync_group, step.group_step);
    }
  }
}

absl::Status StoreChunks::Assign(absl::Span<const SegmentTarget> segments, const Payload& payload,
                                 uint64_t view_version) {
  for (const SegmentTarget& segment : segments) {
    const Shard& shard = segment.shard->shard;
    for (uint64_t i = 0; i < segment.num_chunks && !segment.absent; ++i) {
      Chunk& chunk = At(*segment.shard, segment.first_chunk + i);
      const size_t offset = segment.payload_offset + i * shard.chunk_elements * shard.element_bytes;
      WEIR_ASSIGN_OR_RETURN(const bool first,
                            chunk.Assign({.payload = &payload, .offset = offset}, view_version));
      if (first) ++initialised_;
    }
  }
  return absl::OkStatus();
}

absl::Status StoreChunks::Load(ShardId shard, uint64_t chunk, const SavedChunk& saved) {
  const LocalShard* const local = plan_.Find(shard);
  if (local == nullptr || chunk >= local->shard.num_chunks()) {
    return absl::NotFoundError(absl::StrCat(
        "chunk ", chunk, " of shard ", static_cast<uint64_t>(shard), " is not on this server"));
  }
  Chunk& target = At(*local, chunk);
  const bool had_values = target.initialised();
  WEIR_RETURN_IF_ERROR(target.Load(saved));
  if (!had_values) ++initialised_;
  return absl::OkStatus();
}

const VariablePlan* StoreChunks::WithoutValues(absl::Span<const SegmentTarget> segments) const {
  if (initialised_ == chunks_.size()) return nullptr;
  for (const SegmentTarget& segment : segments) {
    for (uint64_t i = 0; i < segment.num_chunks; ++i) {
      if (!At(*segment.shard, segment.first_chunk + i).initialised()) {
        return segment.shard->variable;
      }
    }
  }
  return nullptr;
}

PullResult StoreChunks::Read(absl::Span<const SegmentTarget> segments) const {
  PullResult result;
  std::vector<Chunk::Reading> readings;
  for (const SegmentTarget& segment : segments) {
    readings.clear();
    uint64_t lowest = UINT64_MAX;
    bool all_known = segment.have_version != 0;
    for (uint64_t i = 0; i < segment.num_chunks; ++i) {
      readings.push_back(At(*segment.shard, segment.first_chunk + i).Read());
      lowest = std::min(lowest, readings.back().version);
      all_known = all_known && readings.back().version == segment.have_version;
    }
    v1::Segment& reply = *result.header.add_segments();
    reply.set_shard(static_cast<uint64_t>(segment.shard->shard.id));
    reply.set_first_element(segment.first_element);
    reply.set_count(segment.count);
    reply.set_have_version(segment.have_version);
    reply.set_version(lowest);
    reply.set_absent(all_known);
    if (result.header.segments_size() == 1) result.header.set_examples(readings[0].examples);
    if (all_known) continue;
    for (Chunk::Reading& reading : readings) {
      const std::byte* const data = reading.weights.data();
      const size_t size = reading.weights.size();
      result.payload.Append(data, size, reading.weights.Detach(), &BufferRef::ReleaseDetached);
    }
  }
  return result;
}

std::vector<ShardSnapshot> StoreChunks::Snapshot() const {
  std::vector<ShardSnapshot> shards;
  for (const LocalShard& local : plan_.shards()) {
    ShardSnapshot& shard = shards.emplace_back();
    shard.shard = local.shard;
    for (uint64_t c = 0; c < local.shard.num_chunks(); ++c) {
      shard.chunks.push_back(At(local, c).Snapshot());
    }
  }
  return shards;
}

AppliedPush StoreChunks::Apply(const PushMessage& message) {
  const PushHeader& push = message.header;
  AppliedPush applied;
  bool all_repeated = !message.segments.empty();
  uint64_t staleness = 0;
  for (const SegmentTarget& segment : message.segments) {
    const Shard& shard = segment.shard->shard;
    for (uint64_t i = 0; i < segment.num_chunks; ++i) {
      Chunk& chunk = At(*segment.shard, segment.first_chunk + i);
      ChunkValues values{.have_version = segment.have_version};
      if (!segment.absent) {
        values.payload = &message.payload;
        values.offset = segment.payload_offset + i * shard.chunk_elements * shard.element_bytes;
      }
      const absl::StatusOr<ChunkOutcome> outcome =
          push.group == 0 ? chunk.WriteState(push, values, *message.tracker)
          : plan_.stepped()
              ? chunk.Contribute(push, values, *message.tracker, message.parked, applied.closed)
              : chunk.Apply(push, values, *message.tracker);
      if (!outcome.ok()) {
        applied.status = outcome.status();
        return applied;
      }
      all_repeated = all_repeated && outcome->repeated;
      if (outcome->late) applied.outcome.set_late(true);
      applied.completes = applied.completes || outcome->completes;
      staleness = std::max(staleness, outcome->staleness);
    }
  }
  applied.outcome.set_repeated(all_repeated);
  if (!plan_.sync() && !all_repeated) applied.outcome.set_staleness(staleness);
  return applied;
}

ReconsideredSteps StoreChunks::Reconsider(uint32_t sync_group) {
  ReconsideredSteps steps;
  steps.closed.resize(plan_.groups().size());
  for (const LocalShard& shard : plan_.shards()) {
    if (shard.variable->group == 0) continue;
    for (uint64_t c = 0; c < shard.shard.num_chunks(); ++c) {
      if (!At(shard, c).Reconsider(sync_group, steps.closed[shard.variable->group]).ok()) {
        steps.out_of_memory = true;
      }
    }
  }
  return steps;
}

std::vector<MemberInfo> StoreChunks::Missing(const GroupStep& step) const {
  for (const LocalShard& shard : plan_.shards()) {
    if (shard.variable->group != step.group) continue;
    for (uint64_t c = 0; c < shard.shard.num_chunks(); ++c) {
      std::vector<MemberInfo> missing = At(shard, c).Missing(step.sync_group, step.group_step);
      if (!missing.empty()) return missing;
    }
  }
  return {};
}

}  // namespace weir
