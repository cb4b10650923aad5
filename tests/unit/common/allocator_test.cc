// SPDX-License-Identifier: Apache-2.0
#include "common/allocator.h"

#include <cstdlib>
#include <memory>

#include "gtest/gtest.h"
#include "tests/support/allocator_kind.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace weir {
namespace {

TEST(KeepFreedMemory, LargeBuffersAreNotMappedEachByItself) {
  if (!kGlibcAllocator) GTEST_SKIP() << "another allocator than glibc's";
#if defined(__GLIBC__)
  KeepFreedMemory();
  const size_t mapped_before = mallinfo2().hblks;
  const std::unique_ptr<void, decltype(&std::free)> buffer(std::malloc(64 << 20), &std::free);
  ASSERT_NE(buffer, nullptr);
  EXPECT_EQ(mallinfo2().hblks, mapped_before);
#endif
}

}  // namespace
}  // namespace weir
