// SPDX-License-Identifier: Apache-2.0
#include "common/allocator.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/notification.h"
#include "gtest/gtest.h"
#include "tests/support/allocator_kind.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace weir {
namespace {

#if defined(__GLIBC__)

constexpr size_t kLarge = 96 << 20;

class KeepFreedMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kGlibcAllocator) GTEST_SKIP() << "another allocator than glibc's";
    KeepFreedMemory();
  }
};

using Buffer = std::unique_ptr<void, decltype(&std::free)>;

// With something in each page: else the compiler does without the buffer.
Buffer Allocate(size_t bytes) {
  Buffer buffer(std::malloc(bytes), &std::free);
  auto* const values = static_cast<volatile char*>(buffer.get());
  for (size_t i = 0; i < bytes; i += 4096) values[i] = 1;
  return buffer;
}

long PageFaultsOfALargeBuffer() {
  const auto faults = [] {
    rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt;
  };
  const long before = faults();
  Allocate(kLarge);
  return faults() - before;
}

int Arenas() {
  char* text = nullptr;
  size_t size = 0;
  FILE* stream = open_memstream(&text, &size);
  malloc_info(0, stream);
  std::fclose(stream);
  const Buffer owner(text, &std::free);
  int arenas = 0;
  for (const char* at = text; (at = std::strstr(at, "<heap nr=")) != nullptr; ++at) ++arenas;
  return arenas;
}

TEST_F(KeepFreedMemoryTest, LargeBuffersAreNotMappedEachByItself) {
  const size_t mapped_before = mallinfo2().hblks;
  const Buffer buffer = Allocate(kLarge);
  ASSERT_NE(buffer, nullptr);
  EXPECT_EQ(mallinfo2().hblks, mapped_before);
}

// It has 24,576 pages of 4 KiB. Trimming would leave 64 MiB, the padding.
TEST_F(KeepFreedMemoryTest, ALargeBufferTakesThePagesOfTheOneThatWasFreedBefore) {
  PageFaultsOfALargeBuffer();
  EXPECT_LT(PageFaultsOfALargeBuffer(), 100);
}

TEST_F(KeepFreedMemoryTest, TheHeapGrowsBySixtyFourMebibytesMoreThanIsNeeded) {
  const struct mallinfo2 before = mallinfo2();
  const Buffer buffer = Allocate(before.fordblks + (1 << 20));  // more than all that is free
  EXPECT_GE(mallinfo2().arena, before.arena + (64 << 20));
}

TEST_F(KeepFreedMemoryTest, ThreadsShareTwoArenas) {
  const int before = Arenas();
  std::vector<std::thread> threads;
  Notification counted;
  std::vector<std::unique_ptr<Notification>> allocated;
  for (int i = 0; i < 6; ++i) {
    Notification& own = *allocated.emplace_back(std::make_unique<Notification>());
    threads.emplace_back([&own, &counted] {
      const Buffer buffer = Allocate(1 << 20);
      own.Notify();
      counted.Wait();
    });
  }
  for (const auto& own : allocated) own->Wait();
  EXPECT_LE(Arenas(), std::max(before, 2));
  counted.Notify();
  for (std::thread& thread : threads) thread.join();
}

#endif

}  // namespace
}  // namespace weir
