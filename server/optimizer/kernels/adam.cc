// SPDX-License-Identifier: Apache-2.0
#include "server/optimizer/kernels/sweep.h"

namespace weir {
namespace {

enum class Decay { kNone, kOfGradient, kOfWeight };

template <typename T, Decay kDecay, bool kAmsgrad>
struct AdamStep {
  AdamConstants<T> c;

  void operator()(T gradient, T& weight, T (&slots)[kMaxSlots]) const {
    if constexpr (kDecay == Decay::kOfGradient) gradient = gradient + c.weight_decay * weight;
    if constexpr (kDecay == Decay::kOfWeight) weight = weight * c.weight_factor;
    T& first = slots[0];
    T& second = slots[1];
    first = c.beta1 * first + c.one_minus_beta1 * gradient;
    second = c.beta2 * second + c.one_minus_beta2 * gradient * gradient;
    T variance = second;
    if constexpr (kAmsgrad) {
      slots[2] = slots[2] > second ? slots[2] : second;
      variance = slots[2];
    }
    const T root = SquareRoot(variance) / c.root_of_bias_correction2 + c.eps;
    weight = weight + c.negative_step_size * first / root;
  }
};

template <typename T, Decay kDecay>
void Run(const AdamConstants<T>& c, const KernelSpan<T>& span) {
  if (c.amsgrad) {
    Sweep<3>(span, AdamStep<T, kDecay, true>{c});
  } else {
    Sweep<2>(span, AdamStep<T, kDecay, false>{c});
  }
}

template <typename T>
void RunEither(const AdamConstants<T>& c, const KernelSpan<T>& span) {
  if (c.weight_decay != 0) {
    Run<T, Decay::kOfGradient>(c, span);
  } else if (c.weight_factor != 1) {
    Run<T, Decay::kOfWeight>(c, span);
  } else {
    Run<T, Decay::kNone>(c, span);
  }
}

}  // namespace

template <>
void RunAdam<kLevel, float>(const AdamConstants<float>& constants, const KernelSpan<float>& span) {
  RunEither(constants, span);
}
template <>
void RunAdam<kLevel, double>(const AdamConstants<double>& constants,
                             const KernelSpan<double>& span) {
  RunEither(constants, span);
}

}  // namespace weir
