// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "common/clock.h"
#include "common/executor.h"
#include "server/buffer.h"

namespace weir {

// Where the memory of chunks comes from: buffers cut from recycled slabs, one size class a slab.
//
//   slab (2 MiB aligned, huge pages):  |..|-----------|-----------|-----------|....|
//                                       ^  buffers: each an odd number of cache lines after the
//                                       |           one before
//                                       an odd number of cache lines, another in each slab
//
// so that no two buffers that an update walks in step lie at a power-of-two distance. A slab that
// holds no buffer goes back to the system after `idle_time`. Thread-safe. Buffers may outlive the
// pool.
class BufferPool {
 public:
  struct Options {
    Clock* clock = nullptr;        // must outlive the pool
    Executor* executor = nullptr;  // must outlive the pool
    absl::Duration idle_time = absl::Seconds(10);
    // Asked before each allocation; false: as if the system had no memory left. Null: as it is.
    std::function<bool(size_t bytes)> has_memory = nullptr;
  };

  explicit BufferPool(Options options);
  ~BufferPool();

  // `size` bytes, uninitialised; 0 bytes are a buffer too. Null: the system has no memory left.
  BufferRef Allocate(size_t size);

  // In buffers that somebody holds, as asked for.
  uint64_t used_bytes() const;
  // Mapped from the system: used, spare, and lost to rounding.
  uint64_t mapped_bytes() const;

 private:
  std::shared_ptr<SlabPool> slabs_;
};

}  // namespace weir
