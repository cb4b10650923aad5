// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "server/optimizer/flush_to_zero.h"
#include "server/optimizer/kernels/kernel.h"
#include "server/optimizer/update_rule.h"

namespace weir {

// Immutable, thread-safe UpdateRule made of a Strategy, one optimizer for elements of type T:
//   num_slots(), InitialValue(slot)           its state
//   Constants, ConstantsOf(UpdateContext)     what an update needs to know, computed in double
//   Run<CpuLevel>(Constants, KernelSpan<T>)   its kernel
template <typename T, typename Strategy>
class FusedRule final : public UpdateRule {
 public:
  FusedRule(Strategy strategy, CpuLevel level) : strategy_(strategy), level_(level) {}

  size_t num_slots() const override { return strategy_.num_slots(); }

  void InitialiseSlots(std::byte* slots, size_t slot_stride_bytes, size_t count) const override {
    for (size_t k = 0; k < num_slots(); ++k) {
      T* const slot = reinterpret_cast<T*>(slots + k * slot_stride_bytes);
      for (size_t i = 0; i < count; ++i) slot[i] = strategy_.InitialValue(k);
    }
  }

  void Apply(const UpdateContext& context, const std::byte* gradient, size_t first, size_t count,
             const ChunkSpan& chunk) const override {
    const typename Strategy::Constants constants = strategy_.ConstantsOf(context);
    KernelSpan<T> span;
    span.gradient = gradient;
    span.gradient_scale = static_cast<T>(context.gradient_scale);
    span.count = count;
    span.weights_in = reinterpret_cast<const T*>(chunk.weights_in) + first;
    span.weights_out = reinterpret_cast<T*>(chunk.weights_out) + first;
    for (size_t k = 0; k < num_slots(); ++k) {
      const size_t offset = k * chunk.slot_stride_bytes;
      span.slots_in[k] = reinterpret_cast<const T*>(chunk.slots_in + offset) + first;
      span.slots_out[k] = reinterpret_cast<T*>(chunk.slots_out + offset) + first;
    }
    Run(constants, span);
  }

 private:
  void Run(const typename Strategy::Constants& constants, const KernelSpan<T>& span) const {
    const FlushToZero flush_to_zero;
#if defined(WEIR_HAVE_X86_64_V3)
    if (level_ == CpuLevel::kX86_64_v3) {
      Strategy::template Run<CpuLevel::kX86_64_v3>(constants, span);
      return;
    }
#endif
    Strategy::template Run<CpuLevel::kBaseline>(constants, span);
  }

  const Strategy strategy_;
  const CpuLevel level_;
};

}  // namespace weir
