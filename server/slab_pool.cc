// SPDX-License-Identifier: Apache-2.0
#include "server/slab_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace weir {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kHugePage = 2 << 20;
// Buffers below this share small slabs of ordinary pages: a model has many sizes of small
// variables, and a huge page for each would be wasted.
constexpr size_t kSmallBytes = 32 << 10;
constexpr size_t kSmallSlabBytes = 256 << 10;
constexpr size_t kBuffersPerSlab = 16;   // at least, of buffers that are not small
constexpr size_t kAloneBytes = 4 << 20;  // from here on one buffer a slab
constexpr size_t kStaggerLines = 64;     // slabs start their first buffer at an odd line below this

size_t RoundUp(size_t value, size_t unit) {
  return (value + unit - 1) / unit * unit;
}

// Aligned to 2 MiB where it is that large. Null: no memory.
std::byte* Map(size_t bytes) {
  const size_t extra = bytes >= kHugePage ? kHugePage : 0;
  void* mapped =
      mmap(nullptr, bytes + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* start = static_cast<std::byte*>(mapped);
  if (extra == 0) return start;
  auto* aligned =
      reinterpret_cast<std::byte*>(RoundUp(reinterpret_cast<uintptr_t>(start), kHugePage));
  if (aligned > start) munmap(start, aligned - start);
  if (aligned + bytes < start + bytes + extra) {
    munmap(aligned + bytes, start + bytes + extra - (aligned + bytes));
  }
  madvise(aligned, bytes, MADV_HUGEPAGE);  // a hint: without huge pages it is only slower
  return aligned;
}

}  // namespace

void Buffer::Recycle(Buffer& buffer) {
  // Taken out first: the pool may end with this very reference, and the record with it.
  const std::shared_ptr<SlabPool> pool = std::move(buffer.pool_);
  pool->Recycle(buffer);
}

SlabPool::SlabPool(BufferPool::Options options)
    : idle_time_(options.idle_time),
      has_memory_(std::move(options.has_memory)),
      clock_(options.clock),
      executor_(options.executor) {}

SlabPool::~SlabPool() {
  MutexLock lock(mutex_);
  for (auto& [lines, size_class] : classes_) {
    for (const auto& slab : size_class.slabs) munmap(slab->memory, slab->bytes);
  }
}

// Classes are apart by a 4th below 32 KiB and by a 32nd above, and of an odd number of lines.
size_t SlabPool::ClassLines(size_t size) {
  const size_t lines = std::max<size_t>(1, RoundUp(size, kLine) / kLine);
  const size_t steps = size < kSmallBytes ? 4 : 32;
  const size_t step = std::max<size_t>(1, std::bit_floor(lines) / steps);
  return RoundUp(lines, step) | 1;
}

BufferRef SlabPool::Allocate(size_t size) {
  if (has_memory_ && !has_memory_(size)) return BufferRef();
  const size_t lines = ClassLines(size);
  MutexLock lock(mutex_);
  SizeClass& size_class = classes_[lines];
  size_class.lines = lines;
  while (!size_class.with_space.empty() && size_class.with_space.back()->free.empty()) {
    size_class.with_space.back()->listed = false;
    size_class.with_space.pop_back();
  }
  Slab* slab = size_class.with_space.empty() ? AddSlab(size_class) : size_class.with_space.back();
  if (slab == nullptr) return BufferRef();
  Buffer& buffer = slab->buffers[slab->free.back()];
  slab->free.pop_back();
  buffer.size_ = size;
  buffer.pool_ = shared_from_this();
  buffer.references_.store(1, std::memory_order_relaxed);
  used_bytes_ += size;
  return BufferRef(buffer);
}

SlabPool::Slab* SlabPool::AddSlab(SizeClass& size_class) {
  const size_t stride = size_class.lines * kLine;
  const size_t stagger = ((slabs_made_++ * 2 + 1) % kStaggerLines) * kLine;
  size_t bytes = kSmallSlabBytes;
  if (stride >= kAloneBytes) {
    bytes = RoundUp(stride + stagger, kHugePage);
  } else if (stride >= kSmallBytes) {
    bytes = RoundUp(stride * kBuffersPerSlab + stagger, kHugePage);
  }
  auto slab = std::make_unique<Slab>();
  slab->memory = Map(bytes);
  if (slab->memory == nullptr) return nullptr;
  slab->size_class = &size_class;
  slab->bytes = bytes;
  slab->count = (bytes - stagger) / stride;
  slab->buffers = std::make_unique<Buffer[]>(slab->count);
  for (size_t i = 0; i < slab->count; ++i) {
    slab->buffers[i].index_ = static_cast<uint32_t>(i);
    slab->buffers[i].data_ = slab->memory + stagger + i * stride;
    slab->buffers[i].slab_ = slab.get();
    slab->free.push_back(static_cast<uint32_t>(slab->count - 1 - i));
  }
  mapped_bytes_ += bytes;
  slab->listed = true;
  slab->position = size_class.slabs.size();
  size_class.slabs.push_back(std::move(slab));
  size_class.with_space.push_back(size_class.slabs.back().get());
  return size_class.slabs.back().get();
}

void SlabPool::Recycle(Buffer& buffer) {
  auto& slab = *static_cast<Slab*>(buffer.slab_);
  MutexLock lock(mutex_);
  used_bytes_ -= buffer.size_;
  slab.free.push_back(buffer.index_);
  if (!slab.listed) {
    slab.listed = true;
    slab.size_class->with_space.push_back(&slab);
  }
  if (slab.free.size() < slab.count) return;
  if (executor_ == nullptr) {
    FreeSlab(slab);
    return;
  }
  slab.empty_since = clock_->Now();
  if (!timer_armed_) ArmTimer(idle_time_);
}

void SlabPool::FreeSlab(Slab& slab) {
  SizeClass& size_class = *slab.size_class;
  if (slab.listed) std::erase(size_class.with_space, &slab);
  munmap(slab.memory, slab.bytes);
  mapped_bytes_ -= slab.bytes;
  const size_t position = slab.position;
  std::swap(size_class.slabs[position], size_class.slabs.back());
  size_class.slabs[position]->position = position;
  size_class.slabs.pop_back();
}

void SlabPool::ArmTimer(absl::Duration delay) {
  timer_armed_ = true;
  executor_->RunAfter(delay, [weak = weak_from_this()] {
    if (const std::shared_ptr<SlabPool> pool = weak.lock()) pool->FreeIdleSlabs();
  });
}

void SlabPool::FreeIdleSlabs() {
  MutexLock lock(mutex_);
  timer_armed_ = false;
  if (executor_ == nullptr) return;
  const absl::Time now = clock_->Now();
  absl::Duration next = absl::InfiniteDuration();
  for (auto& [lines, size_class] : classes_) {
    for (size_t i = size_class.slabs.size(); i-- > 0;) {
      Slab& slab = *size_class.slabs[i];
      if (slab.free.size() < slab.count) continue;
      const absl::Duration left = slab.empty_since + idle_time_ - now;
      if (left <= absl::ZeroDuration()) {
        FreeSlab(slab);
      } else {
        next = std::min(next, left);
      }
    }
  }
  if (next < absl::InfiniteDuration()) ArmTimer(next);
}

void SlabPool::Detach() {
  MutexLock lock(mutex_);
  executor_ = nullptr;
  clock_ = nullptr;
  for (auto& [lines, size_class] : classes_) {
    for (size_t i = size_class.slabs.size(); i-- > 0;) {
      Slab& slab = *size_class.slabs[i];
      if (slab.free.size() == slab.count) FreeSlab(slab);
    }
  }
}

uint64_t SlabPool::used_bytes() const {
  MutexLock lock(mutex_);
  return used_bytes_;
}

uint64_t SlabPool::mapped_bytes() const {
  MutexLock lock(mutex_);
  return mapped_bytes_;
}

}  // namespace weir
