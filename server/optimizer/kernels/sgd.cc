// SPDX-License-Identifier: Apache-2.0
#include "server/optimizer/kernels/sweep.h"

namespace weir {
namespace {

enum class Buffer { kNone, kFirst, kUsual };

template <typename T, bool kDecay, Buffer kBuffer, bool kNesterov>
struct SgdStep {
  SgdConstants<T> c;

  void operator()(T gradient, T& weight, T (&slots)[kMaxSlots]) const {
    if constexpr (kDecay) gradient = gradient + c.weight_decay * weight;
    if constexpr (kBuffer != Buffer::kNone) {
      T& buffer = slots[0];
      if constexpr (kBuffer == Buffer::kFirst) {
        buffer = gradient;
      } else {
        buffer = c.momentum * buffer + c.one_minus_dampening * gradient;
      }
      gradient = kNesterov ? gradient + c.momentum * buffer : buffer;
    }
    weight = weight + c.negative_rate * gradient;
  }
};

template <typename T, bool kDecay>
void Run(const SgdConstants<T>& c, const KernelSpan<T>& span) {
  if (c.momentum == 0) {
    Sweep<0>(span, SgdStep<T, kDecay, Buffer::kNone, false>{c});
  } else if (c.first_update) {
    if (c.nesterov) {
      Sweep<1>(span, SgdStep<T, kDecay, Buffer::kFirst, true>{c});
    } else {
      Sweep<1>(span, SgdStep<T, kDecay, Buffer::kFirst, false>{c});
    }
  } else if (c.nesterov) {
    Sweep<1>(span, SgdStep<T, kDecay, Buffer::kUsual, true>{c});
  } else {
    Sweep<1>(span, SgdStep<T, kDecay, Buffer::kUsual, false>{c});
  }
}

template <typename T>
void RunEither(const SgdConstants<T>& c, const KernelSpan<T>& span) {
  if (c.weight_decay == 0) {
    Run<T, false>(c, span);
  } else {
    Run<T, true>(c, span);
  }
}

}  // namespace

template <>
void RunSgd<kLevel, float>(const SgdConstants<float>& constants, const KernelSpan<float>& span) {
  RunEither(constants, span);
}
template <>
void RunSgd<kLevel, double>(const SgdConstants<double>& constants, const KernelSpan<double>& span) {
  RunEither(constants, span);
}

}  // namespace weir
