// SPDX-License-Identifier: Apache-2.0
#include "server/optimizer/kernels/sweep.h"

namespace weir {
namespace {

template <typename T, bool kDecay, bool kCentered, bool kMomentum>
struct RmsPropStep {
  static constexpr size_t kMean = 1;
  static constexpr size_t kBuffer = kCentered ? 2 : 1;
  static constexpr size_t kSlots = 1 + kCentered + kMomentum;
  RmsPropConstants<T> c;

  void operator()(T gradient, T& weight, T (&slots)[kMaxSlots]) const {
    if constexpr (kDecay) gradient = gradient + c.weight_decay * weight;
    slots[0] = c.alpha * slots[0] + c.one_minus_alpha * gradient * gradient;
    T variance = slots[0];
    if constexpr (kCentered) {
      T& mean = slots[kMean];
      mean = c.alpha * mean + c.one_minus_alpha * gradient;
      variance = variance - mean * mean;
    }
    const T root = SquareRoot(variance) + c.eps;
    if constexpr (kMomentum) {
      T& buffer = slots[kBuffer];
      buffer = c.momentum * buffer + gradient / root;
      weight = weight + c.negative_rate * buffer;
    } else {
      weight = weight + c.negative_rate * gradient / root;
    }
  }
};

template <typename T, bool kCentered, bool kMomentum>
void Run(const RmsPropConstants<T>& c, const KernelSpan<T>& span) {
  using Plain = RmsPropStep<T, false, kCentered, kMomentum>;
  using Decaying = RmsPropStep<T, true, kCentered, kMomentum>;
  if (c.weight_decay == 0) {
    Sweep<Plain::kSlots>(span, Plain{c});
  } else {
    Sweep<Decaying::kSlots>(span, Decaying{c});
  }
}

template <typename T>
void RunEither(const RmsPropConstants<T>& c, const KernelSpan<T>& span) {
  if (c.centered) {
    c.momentum == 0 ? Run<T, true, false>(c, span) : Run<T, true, true>(c, span);
  } else {
    c.momentum == 0 ? Run<T, false, false>(c, span) : Run<T, false, true>(c, span);
  }
}

}  // namespace

template <>
void RunRmsProp<kLevel, float>(const RmsPropConstants<float>& constants,
                               const KernelSpan<float>& span) {
  RunEither(constants, span);
}
template <>
void RunRmsProp<kLevel, double>(const RmsPropConstants<double>& constants,
                                const KernelSpan<double>& span) {
  RunEither(constants, span);
}

}  // namespace weir
