// SPDX-License-Identifier: Apache-2.0
#include "server/optimizer/kernels/sweep.h"

namespace weir {
namespace {

template <typename T, bool kDecay>
struct AdagradStep {
  AdagradConstants<T> c;

  void operator()(T gradient, T& weight, T (&slots)[kMaxSlots]) const {
    if constexpr (kDecay) gradient = gradient + c.weight_decay * weight;
    T& sum = slots[0];
    sum = sum + gradient * gradient;
    weight = weight + c.negative_rate * gradient / (SquareRoot(sum) + c.eps);
  }
};

template <typename T>
void RunEither(const AdagradConstants<T>& c, const KernelSpan<T>& span) {
  if (c.weight_decay == 0) {
    Sweep<1>(span, AdagradStep<T, false>{c});
  } else {
    Sweep<1>(span, AdagradStep<T, true>{c});
  }
}

}  // namespace

template <>
void RunAdagrad<kLevel, float>(const AdagradConstants<float>& constants,
                               const KernelSpan<float>& span) {
  RunEither(constants, span);
}
template <>
void RunAdagrad<kLevel, double>(const AdagradConstants<double>& constants,
                                const KernelSpan<double>& span) {
  RunEither(constants, span);
}

}  // namespace weir
