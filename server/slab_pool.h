// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/mutex.h"
#include "server/buffer_pool.h"

namespace weir {

// What BufferPool and its buffers share. Thread-safe. The lock is a leaf but for the executor's: a
// timer is armed under it, because the executor may be gone once the lock is released.
class SlabPool : public std::enable_shared_from_this<SlabPool> {
 public:
  explicit SlabPool(BufferPool::Options options);
  ~SlabPool();

  BufferRef Allocate(size_t size);
  void Recycle(Buffer& buffer);
  // From now on empty slabs go back at once, without the executor.
  void Detach();

  uint64_t used_bytes() const;
  uint64_t mapped_bytes() const;

 private:
  // Sizes in cache lines. `lines` includes the line that makes the distance odd.
  struct SizeClass;
  struct Slab {
    SizeClass* size_class = nullptr;
    std::byte* memory = nullptr;
    size_t bytes = 0;
    std::unique_ptr<Buffer[]> buffers;
    std::vector<uint32_t> free;  // indices of buffers that nobody holds
    size_t count = 0;
    size_t position = 0;  // in SizeClass::slabs
    bool listed = false;  // in SizeClass::with_space
    absl::Time empty_since;
  };
  struct SizeClass {
    size_t lines = 0;
    std::vector<std::unique_ptr<Slab>> slabs;
    std::vector<Slab*> with_space;  // may hold slabs that are full: they are skipped and dropped
  };

  static size_t ClassLines(size_t size);
  Slab* AddSlab(SizeClass& size_class) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FreeSlab(Slab& slab) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ArmTimer(absl::Duration delay) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FreeIdleSlabs();

  const absl::Duration idle_time_;
  const std::function<bool(size_t bytes)> has_memory_;  // null: yes, as far as is known
  mutable Mutex mutex_;
  Clock* clock_ ABSL_GUARDED_BY(mutex_);
  Executor* executor_ ABSL_GUARDED_BY(mutex_);  // null: detached
  bool timer_armed_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<size_t, SizeClass> classes_ ABSL_GUARDED_BY(mutex_);  // by lines; addresses stay
  uint64_t slabs_made_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t used_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t mapped_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace weir
