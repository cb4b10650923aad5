// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "common/status_macros.h"
#include "server/optimizer/rules.h"

namespace weir {
namespace {

// Nothing is flushed to zero here: values come to rest as they were computed.
template <typename T>
class AverageRule final : public UpdateRule {
 public:
  explicit AverageRule(double decay)
      : decay_(static_cast<T>(decay)), rest_(static_cast<T>(1 - decay)) {}

  size_t num_slots() const override { return 0; }
  void InitialiseSlots(std::byte*, size_t, size_t) const override {}
  bool takes_values() const override { return decay_ == 0; }

  void Apply(const UpdateContext& context, const std::byte* pushed, size_t first, size_t count,
             const ChunkSpan& chunk) const override {
    const T* const in = reinterpret_cast<const T*>(chunk.weights_in) + first;
    T* const out = reinterpret_cast<T*>(chunk.weights_out) + first;
    if (takes_values() && context.gradient_scale == 1) {
      std::memcpy(out, pushed, count * sizeof(T));
      return;
    }
    const T scale = static_cast<T>(context.gradient_scale);
    for (size_t i = 0; i < count; ++i) {
      T value;
      std::memcpy(&value, pushed + i * sizeof(T), sizeof(T));
      value *= scale;
      out[i] = takes_values() ? value : decay_ * in[i] + rest_ * value;
    }
  }

 private:
  const T decay_;
  const T rest_;
};

}  // namespace

UpdateRuleOr CreateAverage(const v1::Average& options, v1::DType dtype) {
  WEIR_RETURN_IF_ERROR(CheckBelowOne("average.decay", options.decay()));
  if (dtype == v1::DTYPE_F32) return std::make_unique<AverageRule<float>>(options.decay());
  return std::make_unique<AverageRule<double>>(options.decay());
}

}  // namespace weir
