// SPDX-License-Identifier: Apache-2.0
// Pulls, and the initial values that they wait for.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "rpc/errors.h"
#include "server/parameter_store.h"

namespace weir {

absl::Status ParameterStore::CheckContextNow(const v1::RequestContext& context) {
  MutexLock lock(mutex_);
  WEIR_RETURN_IF_ERROR(ended_);
  return CheckContext(context, facts_, *members_);
}

absl::Status ParameterStore::NoValuesYet(const VariablePlan& variable) {
  MutexLock lock(mutex_);
  if (state_ == v1::JOB_STATE_RESTORING) {
    return NotInitialised(variable.name,
                          absl::StrCat("the restore of checkpoint ", resume_.checkpoint_id()));
  }
  const MemberInfo* const initialiser = members_->Find(initialiser_);
  return NotInitialised(variable.name, initialiser == nullptr
                                           ? "an initialiser that is not chosen yet"
                                           : NameOf(*initialiser));
}

absl::Status ParameterStore::CheckServing(absl::Span<const SegmentTarget> segments) {
  bool restoring = false;
  {
    MutexLock lock(mutex_);
    restoring = state_ == v1::JOB_STATE_RESTORING && !restored_;
  }
  if (!restoring && initialised_chunks_ == chunks_.size()) return absl::OkStatus();
  for (const SegmentTarget& segment : segments) {
    for (uint64_t i = 0; i < segment.num_chunks; ++i) {
      if (restoring || !ChunkAt(*segment.shard, segment.first_chunk + i).initialised()) {
        return NoValuesYet(*segment.shard->variable);
      }
    }
  }
  return absl::OkStatus();
}

void ParameterStore::Pull(const v1::PullRequest& request, absl::Time deadline,
                          ParameterEndpoint::PullDone done) {
  const auto checked = [&]() -> absl::StatusOr<std::vector<SegmentTarget>> {
    WEIR_RETURN_IF_ERROR(CheckContextNow(request.context()));
    WEIR_ASSIGN_OR_RETURN(
        std::vector<SegmentTarget> segments,
        ResolveSegments(*plan_, request.segments(), Carrier::kReply, /*payload_bytes=*/0));
    WEIR_RETURN_IF_ERROR(CheckServing(segments));
    return segments;
  };
  absl::StatusOr<std::vector<SegmentTarget>> segments = checked();
  if (!segments.ok()) return std::move(done)(segments.status());
  if (!plan_->sync() || request.step() == 0) return std::move(done)(ReadWeights(*segments));

  StoreEffects effects;
  {
    MutexLock lock(mutex_);
    const auto worker = static_cast<WorkerId>(request.context().worker());
    if (worker != WorkerId::kReader) ledger_.Reach(worker, request.step());
    if (!ended_.ok()) {
      effects.replies.push_back(
          [done = std::move(done), why = ended_]() mutable { std::move(done)(why); });
    } else {
      const uint64_t id = ++last_id_;
      pulls_[id] = {.worker = worker,
                    .step = request.step(),
                    .segments = *std::move(segments),
                    .done = std::move(done)};
      AddDeadline(id, deadline);
      Advance(effects);
    }
  }
  RunEffects(effects);
}

void ParameterStore::ReleasePulls(StoreEffects& effects) {
  for (auto it = pulls_.begin(); it != pulls_.end();) {
    if (!ledger_.AllClosedBelow(it->second.step, *members_)) {
      ++it;
      continue;
    }
    deadlines_.Remove(it->first);
    effects.replies.push_back(
        [this, self = shared_from_this(), segments = std::move(it->second.segments),
         done = std::move(it->second.done)]() mutable { std::move(done)(ReadWeights(segments)); });
    it = pulls_.erase(it);
  }
}

std::string ParameterStore::MissingBelow(uint64_t step) {
  if (const auto open = ledger_.OpenBelow(step)) return MissingIn(open->group, open->group_step);
  const std::vector<MemberInfo> behind = ledger_.Behind(step, *members_);
  if (behind.empty()) return "the pull came too late";
  return absl::StrCat("the weights after step ", step - 1, " wait for ", NamesOf(behind));
}

absl::StatusOr<PullResult> ParameterStore::ReadWeights(absl::Span<const SegmentTarget> segments) {
  PullResult result;
  result.header.set_global_step(global_step_);
  std::vector<Chunk::Reading> readings;
  for (const SegmentTarget& segment : segments) {
    readings.clear();
    uint64_t lowest = UINT64_MAX;
    bool all_known = segment.have_version != 0;
    for (uint64_t i = 0; i < segment.num_chunks; ++i) {
      readings.push_back(ChunkAt(*segment.shard, segment.first_chunk + i).Read());
      const Chunk::Reading& reading = readings.back();
      if (!reading.weights) return NoValuesYet(*segment.shard->variable);
      lowest = std::min(lowest, reading.version);
      all_known = all_known && reading.version == segment.have_version;
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

absl::Status ParameterStore::Assign(const v1::AssignRequest& request, const Payload& payload) {
  WEIR_RETURN_IF_ERROR(CheckContextNow(request.context()));
  WEIR_ASSIGN_OR_RETURN(
      const std::vector<SegmentTarget> segments,
      ResolveSegments(*plan_, request.segments(), Carrier::kRequest, payload.size()));
  {
    MutexLock lock(mutex_);
    const auto worker = static_cast<WorkerId>(request.context().worker());
    if (worker == WorkerId::kReader || worker != initialiser_ ||
        state_ != v1::JOB_STATE_INITIALISING) {
      return absl::AbortedError(
          absl::StrCat("worker ", absl::Hex(request.context().worker(), absl::kZeroPad16),
                       " is not the one who assigns initial values now; refresh the view"));
    }
  }
  for (const SegmentTarget& segment : segments) {
    const Shard& shard = segment.shard->shard;
    for (uint64_t i = 0; i < segment.num_chunks && !segment.absent; ++i) {
      Chunk& chunk = ChunkAt(*segment.shard, segment.first_chunk + i);
      const size_t offset = segment.payload_offset + i * shard.chunk_elements * shard.element_bytes;
      WEIR_ASSIGN_OR_RETURN(const bool first,
                            chunk.Assign({.payload = &payload, .offset = offset}));
      if (first) ++initialised_chunks_;
    }
  }
  return absl::OkStatus();
}

}  // namespace weir
