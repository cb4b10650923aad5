// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "server/buffer.h"
#include "sharding/layout.h"
#include "weir/v1/server_control.pb.h"

namespace weir {

// One chunk at a cut. References, no copies: the store writes new versions elsewhere meanwhile.
struct ChunkSnapshot {
  uint64_t version = 0;   // updates applied
  uint64_t examples = 0;  // examples applied: the schedule's clock
  bool initialised = false;
  bool old = false;  // the step before the cut was to bring new values (Average), and did not
  BufferRef weights;
  // Null: the optimizer has none, or none is touched yet (initial values). Slot k is the weights'
  // size long and starts at k * slot_stride_bytes; what is between slots means nothing.
  BufferRef slots;
  uint32_t num_slots = 0;
  size_t slot_stride_bytes = 0;
};

struct ShardSnapshot {
  Shard shard;
  std::vector<ChunkSnapshot> chunks;
};

// Which cut a checkpoint asks for.
struct CutRequest {
  uint64_t cut = 0;
  std::vector<v1::CutMark> marks;  // async: of every live worker and group
};

// What one server holds of a job at one cut.
struct StoreSnapshot {
  uint64_t attempt = 0;
  uint64_t step = 0;  // first step after the cut (sync); pushes applied (async)
  uint64_t examples = 0;
  std::vector<uint64_t> group_steps;  // [0] state, then by group: the next group step
  std::vector<v1::SequenceMark> marks;
  std::vector<ShardSnapshot> shards;
  // Memory that the snapshot may cost while the store goes on; given back with its last copy.
  // Shared, because nobody knows which copy of the snapshot is the last.
  std::shared_ptr<void> reservation;
};

}  // namespace weir
