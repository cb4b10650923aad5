// SPDX-License-Identifier: Apache-2.0
#include "common/allocator.h"

#include <cstdlib>
#include <memory>

#include "gtest/gtest.h"

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include <malloc.h>
#define WEIR_TESTS_GLIBC_ALLOCATOR
#endif

namespace weir {
namespace {

TEST(KeepFreedMemory, LargeBuffersAreNotMappedEachByItself) {
#if defined(WEIR_TESTS_GLIBC_ALLOCATOR)
  KeepFreedMemory();
  const size_t mapped_before = mallinfo2().hblks;
  const std::unique_ptr<void, decltype(&std::free)> buffer(std::malloc(64 << 20), &std::free);
  ASSERT_NE(buffer, nullptr);
  EXPECT_EQ(mallinfo2().hblks, mapped_before);
#else
  GTEST_SKIP() << "another allocator than glibc's";
#endif
}

}  // namespace
}  // namespace weir
