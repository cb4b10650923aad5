// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "weir/v1/variables.pb.h"

namespace weir {

// Of one update of one chunk.
struct UpdateContext {
  double learning_rate = 0;     // the schedule's, times the push's rate_scale
  uint64_t updates_before = 0;  // of this chunk: LibTorch's `step` before the update
  double gradient_scale = 1;    // multiplies the gradient first (1 / sum of weights in sync)
};

// A chunk's memory, or a run of its elements. `in` and `out` are equal (an update in place) or
// apart (copy on write). Slot k's elements start k * slot_stride_bytes after the first slot's.
struct ChunkSpan {
  const std::byte* weights_in = nullptr;
  std::byte* weights_out = nullptr;
  const std::byte* slots_in = nullptr;
  std::byte* slots_out = nullptr;
  size_t slot_stride_bytes = 0;
};

// How an optimizer changes weights and slots, element by element, with LibTorch's semantics. One
// for each (optimizer, dtype). Immutable, thread-safe.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;

  virtual size_t num_slots() const = 0;
  // Values of slots before the first update, for `count` elements.
  virtual void InitialiseSlots(std::byte* slots, size_t slot_stride_bytes, size_t count) const = 0;
  // Reads `count` elements of gradient (perhaps unaligned) and updates elements [first, first +
  // count) of the chunk.
  virtual void Apply(const UpdateContext& context, const std::byte* gradient, size_t first,
                     size_t count, const ChunkSpan& chunk) const = 0;

  // True: a push has the values themselves, so that after a step without one they are old.
  virtual bool takes_values() const { return false; }

  // Errors: InvalidArgument - names the option that is out of its range, or a dtype other than f32,
  // f64.
  static absl::StatusOr<std::unique_ptr<UpdateRule>> Create(const v1::Optimizer& optimizer,
                                                            v1::DType dtype);
};

}  // namespace weir
