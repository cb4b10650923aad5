// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"

namespace weir {

// The bytes of a message's tensors: a sequence of slices, each kept alive by its owner. Received
// payloads are consumed in place, so elements may straddle slices and are not aligned; payloads to be
// sent point into chunks or tensors. Movable. Used from one thread at a time.
class Payload {
 public:
  struct Slice {
    const std::byte* data;
    size_t size;
  };
  using Release = void (*)(void* owner);

  Payload() = default;
  Payload(Payload&& other) noexcept
      : slices_(std::exchange(other.slices_, {})),
        owners_(std::exchange(other.owners_, {})),
        size_(std::exchange(other.size_, 0)) {}
  Payload& operator=(Payload&& other) noexcept {
    std::swap(slices_, other.slices_);
    std::swap(owners_, other.owners_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Payload() {
    for (const Owner& owner : owners_) {
      if (owner.release != nullptr) owner.release(owner.object);
    }
  }

  // `release(owner)` is called once when the bytes are no longer needed; nullptr: they outlive this.
  void Append(const void* data, size_t size, void* owner = nullptr, Release release = nullptr) {
    slices_.push_back({static_cast<const std::byte*>(data), size});
    owners_.push_back({owner, release});
    size_ += size;
  }

  size_t size() const { return size_; }
  absl::Span<const Slice> slices() const { return slices_; }

  // Hands slice i's owner over to the caller, who calls release(owner) in our place.
  std::pair<void*, Release> TakeOwner(size_t i) {
    const Owner owner = std::exchange(owners_[i], {});
    return {owner.object, owner.release};
  }

 private:
  struct Owner {
    void* object = nullptr;
    Release release = nullptr;
  };
  absl::InlinedVector<Slice, 8> slices_;
  absl::InlinedVector<Owner, 8> owners_;
  size_t size_ = 0;
};

}  // namespace weir
