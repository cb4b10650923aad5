// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "rpc/payload.h"
#include "server/member_set.h"
#include "server/store_plan.h"

namespace weir {

// One update of an optimizer group, by those who are in step.
struct GroupStep {
  uint32_t sync_group = 0;
  uint32_t group = 0;
  uint64_t group_step = 0;
};

// Counts a worker's pushes of one group in an attempt: 1, 2, ...
enum class Sequence : uint64_t {};

// The scalar fields of a push, checked.
struct PushHeader {
  WorkerId worker{};
  uint32_t group = 0;  // 0: state
  Sequence sequence{};
  uint64_t step = 0;
  uint64_t group_step = 0;
  double weight = 0;
  uint64_t examples = 0;
  double rate_scale = 1;
  uint32_t sync_group = 0;        // of its worker, when it is admitted
  bool finished = false;          // its worker makes no more steps
  bool may_update_again = false;  // the group in this step
  uint64_t cut = 0;
  Sequence cut_sequence{};

  GroupStep place() const { return {sync_group, group, group_step}; }
};

// One segment of a request, resolved to chunks of this server.
struct SegmentTarget {
  const LocalShard* shard = nullptr;
  uint64_t first_element = 0;  // within the shard
  uint64_t count = 0;          // elements
  uint64_t first_chunk = 0;    // within the shard
  uint64_t num_chunks = 0;
  uint64_t have_version = 0;
  bool absent = false;
  size_t payload_offset = 0;  // of the first element's bytes; meaningless where absent
};

// Where a chunk's values are in a message.
struct ChunkValues {
  const Payload* payload = nullptr;  // null: absent
  size_t offset = 0;
  uint64_t have_version = 0;  // of the weights that the gradient was made on; 0: not known
};

}  // namespace weir
