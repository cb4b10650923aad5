// SPDX-License-Identifier: Apache-2.0
// The inner loops of the optimizers. Each is compiled once for every CpuLevel with its own machine
// flags, so this header and what the loops include hold no function with external linkage.
#pragma once

#include <cstddef>

namespace weir {

enum class CpuLevel { kBaseline, kX86_64_v3 };  // both give the same bits

inline constexpr size_t kMaxSlots = 3;

// One run of elements. `*_in` and `*_out` are equal or apart.
template <typename T>
struct KernelSpan {
  const std::byte* gradient = nullptr;  // perhaps unaligned
  T gradient_scale = 1;
  size_t count = 0;
  const T* weights_in = nullptr;
  T* weights_out = nullptr;
  const T* slots_in[kMaxSlots] = {};
  T* slots_out[kMaxSlots] = {};
};

// What stays the same over all elements of an update, rounded to T where LibTorch does so. Names
// follow LibTorch's options. A zero weight_decay is skipped, as there.
template <typename T>
struct SgdConstants {
  T negative_rate = 0;
  T weight_decay = 0;
  T momentum = 0;  // 0: none; else slot 0 is the momentum buffer
  T one_minus_dampening = 1;
  bool nesterov = false;
  bool first_update = false;  // the momentum buffer starts as the gradient, undampened
};

// Slot 0: sum of squares.
template <typename T>
struct AdagradConstants {
  T negative_rate = 0;
  T weight_decay = 0;
  T eps = 0;
};

// Slots: mean of squares; mean of gradients (centered); momentum buffer (momentum).
template <typename T>
struct RmsPropConstants {
  T negative_rate = 0;
  T weight_decay = 0;
  T alpha = 0;
  T one_minus_alpha = 0;
  T eps = 0;
  T momentum = 0;
  bool centered = false;
};

// Slots: first moment; second moment; its maximum (amsgrad).
template <typename T>
struct AdamConstants {
  T negative_step_size = 0;
  T weight_decay = 0;   // Adam's, added to the gradient
  T weight_factor = 1;  // AdamW's: 1 - rate * weight_decay
  T beta1 = 0;
  T one_minus_beta1 = 1;
  T beta2 = 0;
  T one_minus_beta2 = 1;
  T root_of_bias_correction2 = 1;
  T eps = 0;
  bool amsgrad = false;
};

// Defined for every level, and for T of float and double. Flush-to-zero is the caller's business.
template <CpuLevel level, typename T>
void RunSgd(const SgdConstants<T>& constants, const KernelSpan<T>& span);
template <CpuLevel level, typename T>
void RunAdagrad(const AdagradConstants<T>& constants, const KernelSpan<T>& span);
template <CpuLevel level, typename T>
void RunRmsProp(const RmsPropConstants<T>& constants, const KernelSpan<T>& span);
template <CpuLevel level, typename T>
void RunAdam(const AdamConstants<T>& constants, const KernelSpan<T>& span);

}  // namespace weir
