// SPDX-License-Identifier: Apache-2.0
#include "server/state_aggregation.h"

#include <cstring>
#include <type_traits>

namespace weir {
namespace {

template <typename T>
absl::Span<const T> Elements(const StateValue& value, uint64_t elements) {
  return {reinterpret_cast<const T*>(value.values), static_cast<size_t>(elements)};
}

template <typename T, typename Fold>
void FoldAll(absl::Span<const StateValue> values, uint64_t elements, T* out, Fold fold) {
  std::memcpy(out, values[0].values, elements * sizeof(T));
  for (const StateValue& value : values.subspan(1)) {
    const absl::Span<const T> in = Elements<T>(value, elements);
    for (size_t i = 0; i < in.size(); ++i) out[i] = fold(out[i], in[i]);
  }
}

// A single value comes through as it is.
template <typename T>
void Mean(absl::Span<const StateValue> values, uint64_t elements, T* out) {
  double total = 0;
  for (const StateValue& value : values) total += value.weight;
  const auto share = [&](const StateValue& value) {
    return total > 0 ? value.weight / total : 1.0 / static_cast<double>(values.size());
  };
  for (size_t v = 0; v < values.size(); ++v) {
    const absl::Span<const T> in = Elements<T>(values[v], elements);
    const T factor = static_cast<T>(share(values[v]));
    for (size_t i = 0; i < in.size(); ++i)
      out[i] = v == 0 ? factor * in[i] : out[i] + factor * in[i];
  }
}

// Integers wrap around, as in LibTorch; signed overflow must not be undefined.
template <typename T>
T Plus(T a, T b) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, uint8_t>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else if constexpr (std::is_same_v<T, uint8_t>) {
    return a | b;  // bool: a sum of truths is whether there is one
  } else {
    return a + b;
  }
}

// NaN wins, as in LibTorch.
template <typename T>
T Least(T a, T b) {
  return b < a || b != b ? b : a;
}
template <typename T>
T Greatest(T a, T b) {
  return a < b || b != b ? b : a;
}

template <typename T>
void Aggregate(v1::Aggregation aggregation, absl::Span<const StateValue> by_rank, size_t last,
               uint64_t elements, std::byte* bytes) {
  T* const out = reinterpret_cast<T*>(bytes);
  switch (aggregation) {
    case v1::AGGREGATION_SUM:
      return FoldAll<T>(by_rank, elements, out, Plus<T>);
    case v1::AGGREGATION_MIN:
      return FoldAll<T>(by_rank, elements, out, Least<T>);
    case v1::AGGREGATION_MAX:
      return FoldAll<T>(by_rank, elements, out, Greatest<T>);
    case v1::AGGREGATION_MEAN:
      if constexpr (std::is_floating_point_v<T>) {
        return Mean<T>(by_rank, elements, out);
      }
      [[fallthrough]];
    case v1::AGGREGATION_LAST_WRITE:
      std::memcpy(out, by_rank[last].values, elements * sizeof(T));
      return;
    default:  // FIRST
      std::memcpy(out, by_rank[0].values, elements * sizeof(T));
      return;
  }
}

}  // namespace

void AggregateState(v1::Aggregation aggregation, v1::DType dtype,
                    absl::Span<const StateValue> by_rank, size_t last, uint64_t elements,
                    std::byte* out) {
  switch (dtype) {
    case v1::DTYPE_F64:
      return Aggregate<double>(aggregation, by_rank, last, elements, out);
    case v1::DTYPE_I32:
      return Aggregate<int32_t>(aggregation, by_rank, last, elements, out);
    case v1::DTYPE_I64:
      return Aggregate<int64_t>(aggregation, by_rank, last, elements, out);
    case v1::DTYPE_BOOL:
      return Aggregate<uint8_t>(aggregation, by_rank, last, elements, out);
    default:
      return Aggregate<float>(aggregation, by_rank, last, elements, out);
  }
}

}  // namespace weir
