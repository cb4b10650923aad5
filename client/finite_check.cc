// SPDX-License-Identifier: Apache-2.0
#include "client/finite_check.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace weir {
namespace {

// A value is not finite where all bits of its exponent are set. Blocks are reduced without a
// branch, so that compilers vectorise the loop.
template <typename Bits, Bits kExponent>
std::optional<uint64_t> FirstAllOnes(const void* data, uint64_t elements) {
  constexpr uint64_t kBlock = 2048;
  const auto* bytes = static_cast<const std::byte*>(data);
  Bits block[kBlock];
  for (uint64_t first = 0; first < elements; first += kBlock) {
    const uint64_t count = std::min(kBlock, elements - first);
    std::memcpy(block, bytes + first * sizeof(Bits), count * sizeof(Bits));
    Bits bad = 0;
    for (uint64_t i = 0; i < count; ++i)
      bad |= static_cast<Bits>((block[i] & kExponent) == kExponent);
    if (bad == 0) continue;
    for (uint64_t i = 0; i < count; ++i) {
      if ((block[i] & kExponent) == kExponent) return first + i;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<uint64_t> FirstNotFinite(v1::DType dtype, const void* data, uint64_t elements) {
  switch (dtype) {
    case v1::DTYPE_F32:
      return FirstAllOnes<uint32_t, 0x7f800000u>(data, elements);
    case v1::DTYPE_F64:
      return FirstAllOnes<uint64_t, 0x7ff0000000000000u>(data, elements);
    default:
      return std::nullopt;
  }
}

}  // namespace weir
