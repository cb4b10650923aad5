// SPDX-License-Identifier: Apache-2.0
#include "worker/replica_meeting.h"

#include <gmock/gmock.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::ElementsAre;

// A meeting in which one replica runs at a time.
TEST(ReplicaMeeting, InTurnTheReplicasRunOneAtATimeInTheSameOrder) {
  constexpr uint32_t kReplicas = 3;
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::vector<std::string> log;  // unguarded: the turn guards it
    ReplicaMeeting::Options options;
    options.replicas = kReplicas;
    options.in_turn = true;
    options.turn_taken = [&](uint32_t i) { log.push_back("take " + std::to_string(i)); };
    options.turn_passed = [&](uint32_t i) { log.push_back("pass " + std::to_string(i)); };
    ReplicaMeeting meeting(options);
    meeting.Begin(0, 0);
    const auto work = [&](absl::Span<const void* const>) {
      log.push_back("work");
      return absl::OkStatus();
    };
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < kReplicas; ++i) {
      threads.emplace_back([&, i] {
        meeting.Start(i);
        WEIR_EXPECT_OK(meeting.Meet(i, "call", nullptr, work));
        meeting.End(i, absl::OkStatus());
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_THAT(log, ElementsAre("take 0", "pass 0", "take 1", "pass 1", "take 2", "pass 2", "work",
                                 "take 0", "pass 0", "take 1", "pass 1", "take 2", "pass 2"));
  }
}

TEST(ReplicaMeeting, InTurnAFailureReleasesTheOthersOneAfterAnother) {
  ReplicaMeeting::Options options;
  options.replicas = 3;
  options.in_turn = true;
  int running = 0;  // unguarded: the turn guards it
  options.turn_taken = [&](uint32_t) { EXPECT_EQ(++running, 1); };
  options.turn_passed = [&](uint32_t) { EXPECT_EQ(--running, 0); };
  ReplicaMeeting meeting(options);
  meeting.Begin(0, 0);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      meeting.Start(i);
      const absl::Status status =
          i == 1 ? absl::InternalError("broken")
                 : meeting.Meet(i, "call", nullptr,
                                [](absl::Span<const void* const>) { return absl::OkStatus(); });
      meeting.End(i, status);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(meeting.failure(), HasStatus(absl::StatusCode::kInternal, "replica 1: broken"));
}

}  // namespace
}  // namespace weir
