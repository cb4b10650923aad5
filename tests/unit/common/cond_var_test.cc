// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "common/mutex.h"

namespace weir {
namespace {

// What the wall clock, as this program reads it, is ahead of the kernel's.
std::atomic<time_t> wall_ahead_s{0};

// A wait that counts on a wall clock which is then set back by an hour ends an hour late. To a wait
// that has just read the clock, a clock that the kernel has an hour earlier is the same.
TEST(CondVar, AWaitIsNoLongerWhereTheWallClockIsSetBack) {
  Mutex mutex;
  CondVar changed;
  std::atomic<bool> ended{false};
  wall_ahead_s = 3600;
  std::thread waiter([&] {
    MutexLock lock(mutex);
    changed.WaitFor(mutex, absl::Milliseconds(1));
    ended = true;
  });
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!ended && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_TRUE(ended);
  wall_ahead_s = 0;
  while (!ended) changed.NotifyAll();
  waiter.join();
}

TEST(CondVar, AWaitForEverEndsWithANotification) {
  Mutex mutex;
  CondVar changed;
  bool said = false;
  std::thread teller;
  {
    MutexLock lock(mutex);
    teller = std::thread([&] {
      MutexLock lock(mutex);
      said = true;
      changed.NotifyAll();
    });
    changed.WaitFor(mutex, absl::InfiniteDuration());
    EXPECT_TRUE(said);
  }
  teller.join();
}

}  // namespace
}  // namespace weir

// In place of the C library's, for all of the program.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto result = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  if (clock == CLOCK_REALTIME) time->tv_sec += weir::wall_ahead_s;
  return result;
}
