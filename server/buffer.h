// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace weir {

class BufferRef;
class SlabPool;

// One piece of a slab, made and recycled by BufferPool, held through BufferRef. Thread-safe.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

 private:
  friend class BufferRef;
  friend class SlabPool;

  // Gives the piece back to its pool: the last reference is gone.
  static void Recycle(Buffer& buffer);

  std::atomic<uint32_t> references_{0};
  uint32_t index_ = 0;  // within the slab
  std::byte* data_ = nullptr;
  size_t size_ = 0;  // as asked for
  void* slab_ = nullptr;
  // Set while somebody holds the buffer: a slice on its way to the network outlives the server that
  // sent it, so the slabs live as long as their last buffer.
  std::shared_ptr<SlabPool> pool_;
};

// A counted reference to a 64-byte aligned piece of memory. The bytes may be written only while
// this is the only reference; whoever sees unique() also sees everything that former holders did.
// Null when default constructed or moved from. Thread-compatible; different references to one
// buffer may be used from different threads.
class BufferRef {
 public:
  BufferRef() = default;
  BufferRef(const BufferRef& other) : buffer_(other.buffer_) {
    if (buffer_ != nullptr) buffer_->references_.fetch_add(1, std::memory_order_relaxed);
  }
  BufferRef(BufferRef&& other) noexcept : buffer_(std::exchange(other.buffer_, nullptr)) {}
  BufferRef& operator=(BufferRef other) noexcept {
    std::swap(buffer_, other.buffer_);
    return *this;
  }
  ~BufferRef() {
    if (buffer_ != nullptr) Drop(*buffer_);
  }

  explicit operator bool() const { return buffer_ != nullptr; }
  const std::byte* data() const { return buffer_ == nullptr ? nullptr : buffer_->data_; }
  std::byte* mutable_data() { return buffer_ == nullptr ? nullptr : buffer_->data_; }
  size_t size() const { return buffer_ == nullptr ? 0 : buffer_->size_; }

  // True: nobody else holds the buffer, and all that others did with it happened before.
  bool unique() const {
    return buffer_ != nullptr && buffer_->references_.load(std::memory_order_acquire) == 1;
  }

  // For owners that are plain pointers, as those of Payload: ReleaseDetached(Detach()) drops the
  // reference.
  void* Detach() { return std::exchange(buffer_, nullptr); }
  static void ReleaseDetached(void* detached) { Drop(*static_cast<Buffer*>(detached)); }

 private:
  friend class SlabPool;
  explicit BufferRef(Buffer& adopted) : buffer_(&adopted) {}

  static void Drop(Buffer& buffer) {
    if (buffer.references_.fetch_sub(1, std::memory_order_acq_rel) == 1) Buffer::Recycle(buffer);
  }

  Buffer* buffer_ = nullptr;
};

}  // namespace weir
