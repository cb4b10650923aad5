// SPDX-License-Identifier: Apache-2.0
// The loop that every kernel shares. Only for the kernels' .cc files, which are compiled for
// several CpuLevels: Sweep is instantiated with a Step of an unnamed namespace, hence never shared
// by the linker between levels.
#pragma once

#include <cstddef>

#include "server/optimizer/kernels/kernel.h"

#if defined(__clang__)
#define WEIR_ITERATIONS_ARE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define WEIR_ITERATIONS_ARE_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace weir {
namespace {

// The level that this object file is compiled for.
constexpr CpuLevel kLevel = CpuLevel::WEIR_KERNEL_LEVEL;

inline float SquareRoot(float x) {
  return __builtin_sqrtf(x);
}
inline double SquareRoot(double x) {
  return __builtin_sqrt(x);
}

}  // namespace

template <typename T>
struct __attribute__((packed, may_alias)) Unaligned {
  T value;
};

// Calls step(gradient, weight, slots) for each element and stores what it leaves in weight and
// slots. Weights and slots pass through memory once. Not restrict pointers: in and out may be
// equal.
template <size_t kSlots, typename T, typename Step>
void Sweep(const KernelSpan<T>& span, const Step step) {
  const auto* gradient = reinterpret_cast<const Unaligned<T>*>(span.gradient);
  const T scale = span.gradient_scale;
  const size_t count = span.count;
  const T* const weights_in = span.weights_in;
  T* const weights_out = span.weights_out;
  const T* const in0 = span.slots_in[0];
  const T* const in1 = span.slots_in[1];
  const T* const in2 = span.slots_in[2];
  T* const out0 = span.slots_out[0];
  T* const out1 = span.slots_out[1];
  T* const out2 = span.slots_out[2];

  WEIR_ITERATIONS_ARE_INDEPENDENT
  for (size_t i = 0; i < count; ++i) {
    T weight = weights_in[i];
    T slots[kMaxSlots];
    if constexpr (kSlots > 0) slots[0] = in0[i];
    if constexpr (kSlots > 1) slots[1] = in1[i];
    if constexpr (kSlots > 2) slots[2] = in2[i];
    step(gradient[i].value * scale, weight, slots);
    weights_out[i] = weight;
    if constexpr (kSlots > 0) out0[i] = slots[0];
    if constexpr (kSlots > 1) out1[i] = slots[1];
    if constexpr (kSlots > 2) out2[i] = slots[2];
  }
}

}  // namespace weir
