// SPDX-License-Identifier: Apache-2.0
#include "server/value_check.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace weir {
namespace {

constexpr size_t kBlock = 1024;  // elements between two looks at the result

// An exponent of all ones means NaN or infinity. Whole blocks are folded without branches, so that
// the compiler vectorises; the block that has one is searched.
template <typename Word, Word kExponent>
size_t FirstWithFullExponent(const std::byte* data, size_t count) {
  for (size_t first = 0; first < count; first += kBlock) {
    const size_t end = std::min(count, first + kBlock);
    Word found = 0;
    for (size_t i = first; i < end; ++i) {
      Word word;
      std::memcpy(&word, data + i * sizeof(Word), sizeof(Word));
      found |= static_cast<Word>((word & kExponent) == kExponent);
    }
    if (found == 0) continue;
    for (size_t i = first; i < end; ++i) {
      Word word;
      std::memcpy(&word, data + i * sizeof(Word), sizeof(Word));
      if ((word & kExponent) == kExponent) return i;
    }
  }
  return count;
}

}  // namespace

size_t FirstNotFinite(const std::byte* data, size_t count, v1::DType dtype) {
  if (dtype == v1::DTYPE_F64) {
    return FirstWithFullExponent<uint64_t, 0x7ff0000000000000>(data, count);
  }
  return FirstWithFullExponent<uint32_t, 0x7f800000>(data, count);
}

size_t FirstNotBool(const std::byte* data, size_t count) {
  const auto* bad = std::find_if(data, data + count, [](std::byte b) { return b > std::byte{1}; });
  return static_cast<size_t>(bad - data);
}

}  // namespace weir
