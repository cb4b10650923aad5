// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace weir {

// The bytes of a message's tensors: a sequence of slices, each kept alive by its owner. Received
// payloads are consumed in place, so elements may straddle slices and are not aligned; payloads to
// be sent point into chunks or tensors. Movable. Used from one thread at a time.
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

  // `release(owner)` is called once when the bytes are no longer needed; nullptr: they outlive
  // this.
  void Append(const void* data, size_t size, void* owner = nullptr, Release release = nullptr) {
    slices_.push_back({static_cast<const std::byte*>(data), size});
    owners_.push_back({owner, release, size_});
    size_ += size;
  }

  size_t size() const { return size_; }
  absl::Span<const Slice> slices() const { return slices_; }

  // Hands slice i's owner over to the caller, who calls release(owner) in our place.
  std::pair<void*, Release> TakeOwner(size_t i) {
    return {std::exchange(owners_[i].object, nullptr), std::exchange(owners_[i].release, nullptr)};
  }

  // The slice that holds byte `offset`, which is below size(), and the offset of its first byte.
  struct Position {
    size_t slice;
    size_t begin;
  };
  Position Find(size_t offset) const {
    // The last one that begins at or before it; empty ones before it begin there too.
    const auto next =
        std::upper_bound(owners_.begin(), owners_.end(), offset,
                         [](size_t wanted, const Owner& owner) { return wanted < owner.begin; });
    const auto slice = static_cast<size_t>(next - owners_.begin()) - 1;
    return {slice, owners_[slice].begin};
  }

 private:
  struct Owner {
    void* object = nullptr;
    Release release = nullptr;
    size_t begin = 0;  // of its slice within the payload
  };
  std::vector<Slice> slices_;
  std::vector<Owner> owners_;
  size_t size_ = 0;
};

// Calls fn(const std::byte* data, size_t first, size_t count) for the `elements` elements that
// start at byte `offset` of the payload, run by contiguous run. An element that straddles slices
// comes alone, from a buffer that lives for the call. Data is not aligned. The payload must hold
// offset + elements * element_bytes bytes; element_bytes is at most 16.
template <typename Fn>
void ForEachRun(const Payload& payload, size_t offset, size_t elements, size_t element_bytes,
                Fn&& fn) {
  if (elements == 0 || offset >= payload.size()) return;
  std::byte straddling[16];
  size_t straddling_bytes = 0;
  size_t done = 0;
  const Payload::Position start = payload.Find(offset);
  offset -= start.begin;
  for (const Payload::Slice& slice : payload.slices().subspan(start.slice)) {
    if (done == elements) return;
    const std::byte* data = slice.data + offset;
    size_t left = slice.size - offset;
    offset = 0;
    if (straddling_bytes > 0) {
      const size_t take = std::min(element_bytes - straddling_bytes, left);
      std::memcpy(straddling + straddling_bytes, data, take);
      straddling_bytes += take;
      data += take;
      left -= take;
      if (straddling_bytes < element_bytes) continue;
      fn(static_cast<const std::byte*>(straddling), done, size_t{1});
      straddling_bytes = 0;
      ++done;
    }
    const size_t count = std::min(left / element_bytes, elements - done);
    if (count > 0) fn(data, done, count);
    done += count;
    if (done < elements && left > count * element_bytes) {
      straddling_bytes = left - count * element_bytes;
      std::memcpy(straddling, data + count * element_bytes, straddling_bytes);
    }
  }
}

}  // namespace weir
