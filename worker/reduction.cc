// SPDX-License-Identifier: Apache-2.0
#include "worker/reduction.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

// Elements that are combined at once: few enough to stay in the fastest cache.
constexpr uint64_t kBlock = 1024;

template <typename T>
struct Part {
  const T* data;
  T factor;
};

// What takes part, each with its share of the mean; kSum with 1.
template <typename T>
std::vector<Part<T>> Summands(ReduceOp op, absl::Span<const Contribution> contributions) {
  double total = 0;
  for (const Contribution& each : contributions) total += each.weight;
  std::vector<Part<T>> parts;
  for (const Contribution& each : contributions) {
    double factor = 1;
    if (op == ReduceOp::kMean) {
      factor = total > 0 ? each.weight / total : 1 / static_cast<double>(contributions.size());
    }
    if (each.data == nullptr || factor == 0) continue;
    parts.push_back({static_cast<const T*>(each.data), static_cast<T>(factor)});
  }
  return parts;
}

template <typename T>
void AddUp(ReduceOp op, uint64_t elements, absl::Span<const Contribution> contributions,
           T* result) {
  const std::vector<Part<T>> parts = Summands<T>(op, contributions);
  T sums[kBlock];
  for (uint64_t first = 0; first < elements; first += kBlock) {
    const uint64_t count = std::min(kBlock, elements - first);
    std::fill(sums, sums + count, T{0});
    for (const Part<T>& part : parts) {
      const T* data = part.data + first;
      for (uint64_t i = 0; i < count; ++i) sums[i] += part.factor * data[i];
    }
    std::copy(sums, sums + count, result + first);
  }
}

// kMin, kMax. An absent one counts as zeros.
template <typename T>
void Choose(ReduceOp op, uint64_t elements, absl::Span<const Contribution> contributions,
            T* result) {
  for (uint64_t i = 0; i < elements; ++i) {
    T chosen{};
    bool first = true;
    for (const Contribution& each : contributions) {
      const T value = each.data == nullptr ? T{} : static_cast<const T*>(each.data)[i];
      const bool better = op == ReduceOp::kMin ? value < chosen : chosen < value;
      // A NaN is passed on, as LibTorch's own reductions do.
      if (first || better || value != value) chosen = value;
      first = false;
    }
    result[i] = chosen;
  }
}

template <typename T>
void CombineAs(ReduceOp op, uint64_t elements, absl::Span<const Contribution> contributions,
               T* result) {
  if (op == ReduceOp::kMin || op == ReduceOp::kMax) {
    Choose(op, elements, contributions, result);
  } else if constexpr (std::is_same_v<T, bool>) {
    Choose(ReduceOp::kMax, elements, contributions, result);
  } else {
    AddUp(op, elements, contributions, result);
  }
}

}  // namespace

absl::Status CheckReduction(ReduceOp op, DType dtype) {
  const bool whole = dtype == DType::kInt32 || dtype == DType::kInt64;
  if (op == ReduceOp::kMean && (whole || dtype == DType::kBool)) {
    return absl::InvalidArgumentError(
        "MEAN is of floating-point numbers; convert the tensor, or take SUM, MIN or MAX");
  }
  return absl::OkStatus();
}

void Combine(ReduceOp op, DType dtype, uint64_t elements,
             absl::Span<const Contribution> contributions, void* result) {
  if (op == ReduceOp::kFirst) {
    const void* first = contributions[0].data;
    if (elements == 0 || first == result) return;
    if (first == nullptr) {
      std::memset(result, 0, elements * SizeOf(dtype));
    } else {
      std::memcpy(result, first, elements * SizeOf(dtype));
    }
    return;
  }
  switch (dtype) {
    case DType::kFloat32:
      return CombineAs(op, elements, contributions, static_cast<float*>(result));
    case DType::kFloat64:
      return CombineAs(op, elements, contributions, static_cast<double*>(result));
    case DType::kInt32:
      return CombineAs(op, elements, contributions, static_cast<int32_t*>(result));
    case DType::kInt64:
      return CombineAs(op, elements, contributions, static_cast<int64_t*>(result));
    case DType::kBool:
      return CombineAs(op, elements, contributions, static_cast<bool*>(result));
  }
}

}  // namespace weir
