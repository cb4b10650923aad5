// SPDX-License-Identifier: Apache-2.0
#include "server/buffer_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/manual_executor.h"

namespace weir {
namespace {

uint64_t LineOf(const BufferRef& buffer) {
  return reinterpret_cast<uintptr_t>(buffer.data()) / 64;
}

class BufferPoolTest : public ::testing::Test {
 protected:
  FakeClock clock_;
  ManualExecutor executor_{clock_};
  BufferPool pool_{{.clock = &clock_, .executor = &executor_}};
};

TEST_F(BufferPoolTest, BuffersAreAlignedToCacheLinesAndDoNotOverlap) {
  std::vector<BufferRef> buffers;
  for (const size_t size : {0, 1, 64, 100, 4096, 40000, 131072, 5 << 20}) {
    for (int i = 0; i < (size > (1 << 20) ? 3 : 20); ++i) {
      buffers.push_back(pool_.Allocate(size));
      ASSERT_TRUE(buffers.back());
      EXPECT_EQ(buffers.back().size(), size);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffers.back().data()) % 64, 0u);
      std::memset(buffers.back().mutable_data(), static_cast<int>(buffers.size()), size);
    }
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].size() == 0) continue;
    // Each was filled with one value, so an overlap shows at an end.
    EXPECT_EQ(static_cast<uint8_t>(buffers[i].data()[0]), i + 1);
    EXPECT_EQ(static_cast<uint8_t>(buffers[i].data()[buffers[i].size() - 1]), i + 1);
  }
}

TEST_F(BufferPoolTest, NeighboursLieAnOddNumberOfCacheLinesApart) {
  const BufferRef a = pool_.Allocate(128 << 10);
  const BufferRef b = pool_.Allocate(128 << 10);
  EXPECT_EQ((LineOf(b) - LineOf(a)) % 2, 1u);
}

TEST_F(BufferPoolTest, SlabsOfTwoSizesStartAtDifferentLines) {
  const BufferRef a = pool_.Allocate(128 << 10);
  const BufferRef b = pool_.Allocate(256 << 10);
  constexpr uint64_t kLinesOfAPage = 4096 / 64;
  EXPECT_NE(LineOf(a) % kLinesOfAPage, LineOf(b) % kLinesOfAPage);
}

TEST_F(BufferPoolTest, AReleasedBufferIsUsedAgain) {
  BufferRef a = pool_.Allocate(128 << 10);
  const std::byte* const data = a.data();
  a = BufferRef();
  EXPECT_EQ(pool_.Allocate(128 << 10).data(), data);
}

TEST_F(BufferPoolTest, OnlyTheSoleHolderIsUnique) {
  BufferRef a = pool_.Allocate(8);
  EXPECT_TRUE(a.unique());
  BufferRef b = a;
  EXPECT_FALSE(a.unique());
  b = BufferRef();
  EXPECT_TRUE(a.unique());
  EXPECT_FALSE(BufferRef().unique());
}

TEST_F(BufferPoolTest, CountsWhatIsHeldAndWhatIsMapped) {
  BufferRef a = pool_.Allocate(1000);
  BufferRef b = pool_.Allocate(128 << 10);
  EXPECT_EQ(pool_.used_bytes(), 1000u + (128 << 10));
  EXPECT_GE(pool_.mapped_bytes(), pool_.used_bytes());
  a = BufferRef();
  b = BufferRef();
  EXPECT_EQ(pool_.used_bytes(), 0u);
}

TEST_F(BufferPoolTest, SpareSlabsGoBackToTheSystemAfterTenSeconds) {
  { const BufferRef buffer = pool_.Allocate(128 << 10); }
  executor_.Advance(absl::Seconds(9));
  EXPECT_GT(pool_.mapped_bytes(), 0u);
  executor_.Advance(absl::Seconds(2));
  EXPECT_EQ(pool_.mapped_bytes(), 0u);
}

TEST_F(BufferPoolTest, ASlabThatIsUsedAgainStays) {
  { const BufferRef buffer = pool_.Allocate(128 << 10); }
  executor_.Advance(absl::Seconds(9));
  const BufferRef again = pool_.Allocate(128 << 10);
  executor_.Advance(absl::Seconds(60));
  EXPECT_GT(pool_.mapped_bytes(), 0u);
}

TEST_F(BufferPoolTest, BuffersOutliveTheirPool) {
  auto pool =
      std::make_unique<BufferPool>(BufferPool::Options{.clock = &clock_, .executor = &executor_});
  BufferRef buffer = pool->Allocate(1 << 20);
  pool.reset();
  std::memset(buffer.mutable_data(), 1, buffer.size());
}

TEST_F(BufferPoolTest, ADetachedReferenceCountsUntilItIsReleased) {
  BufferRef a = pool_.Allocate(64);
  BufferRef b = a;
  void* detached = b.Detach();
  EXPECT_FALSE(a.unique());
  BufferRef::ReleaseDetached(detached);
  EXPECT_TRUE(a.unique());
}

TEST_F(BufferPoolTest, ThreadsAllocateAndReleaseAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      std::vector<BufferRef> held;
      for (int i = 0; i < 2000; ++i) {
        held.push_back(pool_.Allocate(static_cast<size_t>(i % 7) * 10000));
        if (held.back().size() > 0) held.back().mutable_data()[0] = static_cast<std::byte>(t);
        if (held.size() > 20) held.erase(held.begin());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool_.used_bytes(), 0u);
}

}  // namespace
}  // namespace weir
