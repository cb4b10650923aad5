// SPDX-License-Identifier: Apache-2.0
// Everything that can be wrong with a request is found here, before anything is touched.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rpc/payload.h"
#include "server/member_set.h"
#include "server/push_header.h"
#include "server/store_plan.h"
#include "weir/v1/parameter_server.pb.h"

namespace weir {

// What a server knows of a job, to hold a request's context against.
struct ViewFacts {
  uint64_t run_id = 0;
  uint64_t attempt = 0;
  uint64_t generation = 0;
  uint64_t shard_map_version = 0;
};

// What a store goes by of the newest view, besides its members.
struct NewestView {
  uint64_t version = 0;
  v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
  ViewFacts facts;
  WorkerId initialiser{};
  v1::ResumePoint resume;
};

// Errors: Aborted - the sender's view or membership is out of date; Unavailable - the server's is.
absl::Status CheckContext(const v1::RequestContext& context, const ViewFacts& facts,
                          const MemberSet& members);

// Which messages carry the segments' elements: no message carries more than gRPC's default limit.
enum class Carrier { kRequest, kReply, kBoth };

using Segments = google::protobuf::RepeatedPtrField<v1::Segment>;

// `payload_bytes`: of the request; of no meaning where the reply alone carries elements.
// Errors: InvalidArgument - names shard and field: a shard that is not here, a run that is not of
// whole chunks, two runs that overlap, a payload of the wrong size, more than one message can
// carry.
absl::StatusOr<std::vector<SegmentTarget>> ResolveSegments(const StorePlan& plan,
                                                           const Segments& segments,
                                                           Carrier carrier, uint64_t payload_bytes);

// Errors: InvalidArgument - names the field, or the variable that is in another group;
// Unimplemented - an encoding of the future.
absl::StatusOr<PushHeader> CheckPush(const v1::PushRequest& request, const StorePlan& plan,
                                     absl::Span<const SegmentTarget> targets);

// Errors: InvalidArgument - NotFinite with variable, element, worker and step; a bool that is
// neither 0 nor 1. State that is not averaged or summed may hold infinities.
absl::Status CheckValues(const PushHeader& header, absl::Span<const SegmentTarget> targets,
                         const Payload& payload);

}  // namespace weir
