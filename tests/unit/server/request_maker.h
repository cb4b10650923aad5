// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "sharding/layout.h"
#include "tests/unit/server/view_maker.h"
#include "weir/v1/parameter_server.pb.h"

namespace weir {

// Requests of one worker, with whole variables as segments.
class RequestMaker {
 public:
  RequestMaker(const ViewMaker& view, uint64_t worker) : view_(view), worker_(worker) {}

  v1::RequestContext Context() const {
    v1::RequestContext context;
    context.set_run_id(view_.view().run_id());
    context.set_attempt(view_.view().attempt());
    context.set_generation(view_.view().generation());
    context.set_shard_map_version(view_.view().shard_map().version());
    context.set_worker(worker_);
    context.set_server_incarnation(kServer);
    return context;
  }
  // One segment a shard.
  std::vector<v1::Segment> SegmentsOf(uint64_t variable) const {
    std::vector<v1::Segment> segments;
    const Layout layout = view_.MakeLayout();
    for (const Shard& shard : layout.ShardsOf(static_cast<VariableId>(variable))) {
      v1::Segment& segment = segments.emplace_back();
      segment.set_shard(static_cast<uint64_t>(shard.id));
      segment.set_count(shard.elements);
    }
    return segments;
  }
  v1::PullRequest Pull(const std::vector<v1::Segment>& segments, uint64_t step = 0) const {
    v1::PullRequest request;
    *request.mutable_context() = Context();
    request.set_step(step);
    for (const v1::Segment& segment : segments) *request.add_segments() = segment;
    return request;
  }
  v1::PushRequest Push(const std::vector<v1::Segment>& segments, uint64_t sequence,
                       uint32_t group = 1) const {
    v1::PushRequest request;
    *request.mutable_context() = Context();
    request.set_group(group);
    request.set_sequence(sequence);
    request.set_step(sequence - 1);
    request.set_group_step(sequence - 1);
    request.set_weight(1);
    request.set_examples(1);
    for (const v1::Segment& segment : segments) *request.add_segments() = segment;
    return request;
  }
  v1::AssignRequest Assign(const std::vector<v1::Segment>& segments) const {
    v1::AssignRequest request;
    *request.mutable_context() = Context();
    for (const v1::Segment& segment : segments) *request.add_segments() = segment;
    return request;
  }

 private:
  const ViewMaker& view_;
  const uint64_t worker_;
};

// One segment of `count` elements.
inline std::vector<v1::Segment> OneSegment(uint64_t shard, uint64_t first, uint64_t count) {
  v1::Segment segment;
  segment.set_shard(shard);
  segment.set_first_element(first);
  segment.set_count(count);
  return {segment};
}

inline std::vector<v1::Segment> Absent(std::vector<v1::Segment> segments) {
  for (v1::Segment& segment : segments) segment.set_absent(true);
  return segments;
}

}  // namespace weir
