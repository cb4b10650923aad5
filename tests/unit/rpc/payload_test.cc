// SPDX-License-Identifier: Apache-2.0
#include "rpc/payload.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <numeric>
#include <vector>

namespace weir {
namespace {

// Bytes 0, 1, 2, ... in slices of these sizes.
struct Sliced {
  explicit Sliced(const std::vector<size_t>& sizes) {
    size_t total = 0;
    for (const size_t size : sizes) total += size;
    bytes.resize(total);
    std::iota(bytes.begin(), bytes.end(), uint8_t{0});
    size_t at = 0;
    for (const size_t size : sizes) {
      payload.Append(bytes.data() + at, size);
      at += size;
    }
  }
  std::vector<uint8_t> bytes;
  Payload payload;
};

RC_GTEST_PROP(Payload, RunsCoverTheElementsInOrderWhereverSlicesEnd, ()) {
  const Sliced sliced(*rc::gen::container<std::vector<size_t>>(rc::gen::inRange<size_t>(0, 40)));
  const auto element_bytes = *rc::gen::element<size_t>(1, 4, 8, 16);
  const auto offset = *rc::gen::inRange<size_t>(0, sliced.bytes.size() + 1);
  const auto elements =
      *rc::gen::inRange<size_t>(0, (sliced.bytes.size() - offset) / element_bytes + 1);

  std::vector<uint8_t> seen;
  size_t next = 0;
  ForEachRun(sliced.payload, offset, elements, element_bytes,
             [&](const std::byte* data, size_t first, size_t count) {
               RC_ASSERT(first == next);
               RC_ASSERT(count > 0u);
               next += count;
               const auto* begin = reinterpret_cast<const uint8_t*>(data);
               seen.insert(seen.end(), begin, begin + count * element_bytes);
             });
  RC_ASSERT(next == elements);
  const auto expected = sliced.bytes.begin() + static_cast<std::ptrdiff_t>(offset);
  RC_ASSERT(seen == std::vector<uint8_t>(expected, expected + static_cast<std::ptrdiff_t>(
                                                                  elements * element_bytes)));
}

TEST(Payload, FindsTheSliceThatHoldsAByte) {
  const Sliced sliced({0, 3, 0, 0, 2, 1, 0});
  const size_t slices[] = {1, 1, 1, 4, 4, 5};
  const size_t begins[] = {0, 0, 0, 3, 3, 5};
  for (size_t offset = 0; offset < 6; ++offset) {
    EXPECT_EQ(sliced.payload.Find(offset).slice, slices[offset]) << offset;
    EXPECT_EQ(sliced.payload.Find(offset).begin, begins[offset]) << offset;
  }
}

TEST(Payload, ReleasesEachOwnerOnce) {
  int released[3] = {};
  const auto release = [](void* owner) { ++*static_cast<int*>(owner); };
  {
    Payload payload;
    for (int& count : released) payload.Append("x", 1, &count, release);
    Payload moved = std::move(payload);
    const auto [owner, give_back] = moved.TakeOwner(1);
    EXPECT_EQ(owner, &released[1]);
    give_back(owner);
  }
  EXPECT_EQ(released[0], 1);
  EXPECT_EQ(released[1], 1);
  EXPECT_EQ(released[2], 1);
}

}  // namespace
}  // namespace weir
