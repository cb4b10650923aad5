// SPDX-License-Identifier: Apache-2.0
#include "server/request_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/dtype.h"
#include "rpc/errors.h"
#include "rpc/protocol.h"
#include "server/value_check.h"

namespace weir {
namespace {

absl::Status CheckMembership(const v1::RequestContext& context, const ViewFacts& facts,
                             const MemberSet& members) {
  if (members.Find(static_cast<WorkerId>(context.worker())) != nullptr) return absl::OkStatus();
  if (context.generation() > facts.generation) {
    return ViewNotYetKnown("generation", facts.generation, context.generation());
  }
  return NotAMember(static_cast<WorkerId>(context.worker()), "its lease has ended, or it has left");
}

absl::Status SegmentError(const v1::Segment& segment, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("segment of shard ", segment.shard(), ": ", what));
}

absl::StatusOr<SegmentTarget> ResolveSegment(const StorePlan& plan, const v1::Segment& segment) {
  const LocalShard* const local = plan.Find(static_cast<ShardId>(segment.shard()));
  if (local == nullptr) {
    if (segment.shard() < plan.layout().shards().size()) {
      return SegmentError(segment, "another server holds it");
    }
    return SegmentError(
        segment, absl::StrCat("unknown; the job has ", plan.layout().shards().size(), " shards"));
  }
  const Shard& shard = local->shard;
  if (segment.count() == 0) return SegmentError(segment, "count is 0");
  if (segment.first_element() >= shard.elements ||
      segment.count() > shard.elements - segment.first_element()) {
    return SegmentError(segment, absl::StrCat("elements ", segment.first_element(), " + ",
                                              segment.count(), " go beyond the shard's ",
                                              shard.elements, " of '", local->variable->name, "'"));
  }
  const uint64_t end = segment.first_element() + segment.count();
  if (segment.first_element() % shard.chunk_elements != 0 ||
      (end % shard.chunk_elements != 0 && end != shard.elements)) {
    return SegmentError(segment,
                        absl::StrCat("elements ", segment.first_element(), " + ", segment.count(),
                                     " are not whole chunks of ", shard.chunk_elements, " of '",
                                     local->variable->name, "'"));
  }
  SegmentTarget target;
  target.shard = local;
  target.first_element = segment.first_element();
  target.count = segment.count();
  target.first_chunk = segment.first_element() / shard.chunk_elements;
  target.num_chunks = (segment.count() + shard.chunk_elements - 1) / shard.chunk_elements;
  target.have_version = segment.have_version();
  target.absent = segment.absent();
  return target;
}

absl::Status CheckOverlap(absl::Span<const SegmentTarget> targets) {
  std::vector<const SegmentTarget*> sorted;
  sorted.reserve(targets.size());
  for (const SegmentTarget& target : targets) sorted.push_back(&target);
  std::sort(sorted.begin(), sorted.end(), [](const SegmentTarget* a, const SegmentTarget* b) {
    return std::make_pair(a->shard->shard.id, a->first_element) <
           std::make_pair(b->shard->shard.id, b->first_element);
  });
  for (size_t i = 1; i < sorted.size(); ++i) {
    const SegmentTarget& before = *sorted[i - 1];
    if (before.shard == sorted[i]->shard &&
        before.first_element + before.count > sorted[i]->first_element) {
      return absl::InvalidArgumentError(
          absl::StrCat("two segments cover element ", sorted[i]->first_element, " of shard ",
                       static_cast<uint64_t>(before.shard->shard.id)));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckGroup(uint32_t group, absl::Span<const SegmentTarget> targets,
                        const StorePlan& plan) {
  if (group >= plan.groups().size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("group is ", group, "; the job has ", plan.groups().size() - 1));
  }
  for (const SegmentTarget& target : targets) {
    const VariablePlan& variable = *target.shard->variable;
    if (variable.group != group) {
      return absl::InvalidArgumentError(absl::StrCat(
          "variable '", variable.name, "' is in group '", plan.groups()[variable.group].name,
          "', but the push is of group '", plan.groups()[group].name, "'"));
    }
  }
  return absl::OkStatus();
}

// Far beyond all sense, and far below what makes infinities of f32.
constexpr double kMostFactor = 1e9;

absl::Status CheckFactor(absl::string_view field, double value) {
  if (value >= 0 && value <= kMostFactor) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, "; it must be between 0 and ", kMostFactor));
}

absl::Status CheckNumbers(const v1::PushRequest& request, absl::Span<const SegmentTarget> targets) {
  if (request.sequence() == 0) {
    return absl::InvalidArgumentError("sequence is 0; pushes are counted from 1");
  }
  WEIR_RETURN_IF_ERROR(CheckFactor("weight", request.weight()));
  WEIR_RETURN_IF_ERROR(CheckFactor("rate_scale", request.rate_scale()));
  const bool any_present = std::any_of(targets.begin(), targets.end(),
                                       [](const SegmentTarget& target) { return !target.absent; });
  if (any_present && request.weight() == 0) {
    return absl::InvalidArgumentError("weight is 0, but the push carries gradients");
  }
  return absl::OkStatus();
}

bool MustBeFinite(const VariablePlan& variable) {
  if (!IsFloating(variable.dtype)) return false;
  return variable.group != 0 || variable.aggregation == v1::AGGREGATION_MEAN ||
         variable.aggregation == v1::AGGREGATION_SUM;
}

// Index within the segment of the first bad element; the segment's count where all are good.
uint64_t FirstBad(const SegmentTarget& target, const Payload& payload) {
  const VariablePlan& variable = *target.shard->variable;
  uint64_t bad = target.count;
  ForEachRun(payload, target.payload_offset, target.count, variable.element_bytes,
             [&](const std::byte* data, size_t first, size_t count) {
               if (bad < target.count) return;
               const size_t found = variable.dtype == v1::DTYPE_BOOL
                                        ? FirstNotBool(data, count)
                                        : FirstNotFinite(data, count, variable.dtype);
               if (found < count) bad = first + found;
             });
  return bad;
}

}  // namespace

absl::Status CheckContext(const v1::RequestContext& context, const ViewFacts& facts,
                          const MemberSet& members) {
  if (context.attempt() < facts.attempt) return StaleAttempt(context.attempt(), facts.attempt);
  if (context.attempt() > facts.attempt) {
    return ViewNotYetKnown("attempt", facts.attempt, context.attempt());
  }
  const bool reader = static_cast<WorkerId>(context.worker()) == WorkerId::kReader;
  if (!reader) WEIR_RETURN_IF_ERROR(CheckMembership(context, facts, members));
  if (context.shard_map_version() < facts.shard_map_version) {
    return StaleView("shard map", context.shard_map_version(), facts.shard_map_version);
  }
  if (context.shard_map_version() > facts.shard_map_version) {
    return ViewNotYetKnown("shard map", facts.shard_map_version, context.shard_map_version());
  }
  if (reader) return absl::OkStatus();
  if (context.generation() < facts.generation) {
    return StaleView("generation", context.generation(), facts.generation);
  }
  if (context.generation() > facts.generation) {
    return ViewNotYetKnown("generation", facts.generation, context.generation());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SegmentTarget>> ResolveSegments(const StorePlan& plan,
                                                           const Segments& segments,
                                                           Carrier carrier,
                                                           uint64_t payload_bytes) {
  std::vector<SegmentTarget> targets;
  targets.reserve(segments.size());
  uint64_t request_bytes = 0;
  uint64_t carried_bytes = 0;
  for (const v1::Segment& segment : segments) {
    WEIR_ASSIGN_OR_RETURN(SegmentTarget target, ResolveSegment(plan, segment));
    if (carrier == Carrier::kReply) target.absent = false;
    const uint64_t bytes = target.count * target.shard->variable->element_bytes;
    if (carrier != Carrier::kRequest || !target.absent) {
      // A lone chunk may be as large as the job's chunks are; and nothing overflows before the
      // check.
      const bool lone_chunk = segments.size() == 1 && target.num_chunks == 1;
      carried_bytes += std::min(bytes, uint64_t{kMaxMessageBytes} + 1);
      if (carried_bytes > kMaxMessageBytes && !lone_chunk) {
        return absl::InvalidArgumentError(
            absl::StrCat("the segments cover more than ", kMaxMessageBytes,
                         " bytes, which no message can carry; cut the request"));
      }
    }
    target.payload_offset = request_bytes;
    if (!target.absent) request_bytes += bytes;
    targets.push_back(target);
  }
  WEIR_RETURN_IF_ERROR(CheckOverlap(targets));
  if (carrier != Carrier::kReply && payload_bytes != request_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("the payload has ", payload_bytes,
                                                   " bytes; the segments need ", request_bytes));
  }
  return targets;
}

absl::StatusOr<PushHeader> CheckPush(const v1::PushRequest& request, const StorePlan& plan,
                                     absl::Span<const SegmentTarget> targets) {
  if (request.encoding() != v1::ENCODING_RAW) {
    return absl::UnimplementedError(absl::StrCat("encoding ", static_cast<int>(request.encoding()),
                                                 " is not known to this server; send raw"));
  }
  WEIR_RETURN_IF_ERROR(CheckGroup(request.group(), targets, plan));
  WEIR_RETURN_IF_ERROR(CheckNumbers(request, targets));
  return PushHeader{.worker = static_cast<WorkerId>(request.context().worker()),
                    .group = request.group(),
                    .sequence = Sequence{request.sequence()},
                    .step = request.step(),
                    .group_step = request.group_step(),
                    .weight = request.weight(),
                    .examples = request.examples(),
                    .rate_scale = request.rate_scale() == 0 ? 1 : request.rate_scale(),
                    .finished = request.finished(),
                    .may_update_again = request.may_update_again(),
                    .cut = request.cut(),
                    .cut_sequence = Sequence{request.cut_sequence()}};
}

absl::Status CheckValues(const PushHeader& header, absl::Span<const SegmentTarget> targets,
                         const Payload& payload) {
  for (const SegmentTarget& target : targets) {
    const VariablePlan& variable = *target.shard->variable;
    const bool is_bool = variable.dtype == v1::DTYPE_BOOL;
    if (target.absent || (!is_bool && !MustBeFinite(variable))) continue;
    const uint64_t bad = FirstBad(target, payload);
    if (bad == target.count) continue;
    const uint64_t element = target.shard->shard.first_element + target.first_element + bad;
    if (is_bool) {
      return absl::InvalidArgumentError(
          absl::StrCat("element ", element, " of '", variable.name,
                       "' is neither 0 nor 1, but the variable is bool"));
    }
    return NotFinite(variable.name, element, header.worker, header.step);
  }
  return absl::OkStatus();
}

}  // namespace weir
