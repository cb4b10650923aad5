// SPDX-License-Identifier: Apache-2.0
// Workers that stall and die in the regimes between sync and async: nobody hangs.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/faults/fault_test.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class RegimeFault : public FaultTest {
 protected:
  // Waits until the status of the worker of this rank says that it waits for the other.
  void AwaitWait(uint32_t rank, uint32_t other) {
    const auto waits = [&] {
      const v1::JobStatus job = ShowJob("counting");
      for (const v1::WorkerStatus& worker : job.workers()) {
        const auto& for_whom = worker.waits_for();
        if (worker.rank() == rank && std::count(for_whom.begin(), for_whom.end(), other) > 0) {
          return true;
        }
      }
      return false;
    };
    EXPECT_TRUE(cluster_->WaitUntil(waits, kSoon)) << "rank " << rank << " waits for nobody";
  }
};

TEST_F(RegimeFault, ABoundedWorkerGoesOnToTheBoundAndWhenTheSlowOneIsDeadBeyondIt) {
  StartCluster(2);
  const std::vector<std::string> flags = {"--workers", "2",  "--bounded-staleness", "3",
                                          "--steps",   "60", "--step-ms",           "5"};
  std::vector<std::string> holding = flags;
  holding.insert(holding.end(), {"--hold-at", "10"});
  StartWorker("slow", holding);
  WEIR_ASSERT_OK(cluster_->WaitForLine("slow", "joined rank=", kSoon));
  StartWorker("fast", flags);
  WEIR_ASSERT_OK(cluster_->WaitForLine("slow", "waiting at step 10", kSoon));
  // Steps 0 to 12 are done: the next one would be the fourth ahead.
  AwaitStep("fast", 12);
  const uint32_t fast = absl::StrContains(cluster_->Output("fast"), "joined rank=0") ? 0 : 1;
  AwaitWait(fast, 1 - fast);
  EXPECT_THAT(cluster_->Output("fast"), Not(HasSubstr("step 13 ")));
  WEIR_ASSERT_OK(cluster_->Kill("slow"));
  // 60 pushes, and the 10 of the dead.
  EXPECT_THAT(AwaitFinish("fast"), HasSubstr("weight=70 attempt=1 lost=0"));
  EXPECT_THAT(cluster_->Output("fast"), HasNoFailure());
}

TEST_F(RegimeFault, AWorkerThatJoinsABoundedJobBeginsAtTheOthersStep) {
  StartCluster(2);
  const std::vector<std::string> flags = {"--workers",           "2", "--min-workers", "1",
                                          "--bounded-staleness", "2", "--steps",       "120",
                                          "--step-ms",           "20"};
  StartWorker("a", flags);
  AwaitStep("a", 40);
  StartWorker("b", flags);
  WEIR_ASSERT_OK_AND_ASSIGN(const std::string first, cluster_->WaitForLine("b", "step ", kSoon));
  EXPECT_THAT(first, Not(HasSubstr("step 0 ")));
  AwaitFinish("a");
  AwaitFinish("b");
  for (const char* worker : {"a", "b"}) {
    EXPECT_THAT(cluster_->Output(worker), HasNoFailure());
  }
}

TEST_F(RegimeFault, AWorkerKilledInASyncGroupIsMissedByItsGroupAlone) {
  StartCluster(2);
  const std::vector<std::string> flags = {"--workers", "4",       "--sync-group-size",
                                          "2",         "--steps", "40"};
  std::vector<std::string> holding = flags;
  holding.insert(holding.end(), {"--hold-at", "10"});
  // Ranks in the order of joining: a and b are one group.
  for (const char* name : {"a", "b", "c", "d"}) {
    StartWorker(name, std::string(name) == "b" ? holding : flags);
    WEIR_ASSERT_OK(cluster_->WaitForLine(name, "joined rank=", kSoon));
  }
  WEIR_ASSERT_OK(cluster_->WaitForLine("b", "waiting at step 10", kSoon));
  AwaitStep("c", 39);  // while the other group stands still
  AwaitWait(0, 1);
  EXPECT_THAT(cluster_->Output("a"), Not(HasSubstr("step 10 ")));
  WEIR_ASSERT_OK(cluster_->Kill("b"));
  // 40 steps of each group, of a mean of -1.
  for (const char* name : {"a", "c", "d"}) {
    EXPECT_THAT(AwaitFinish(name), HasSubstr("weight=80 attempt=1 lost=0"));
    EXPECT_THAT(cluster_->Output(name), HasNoFailure());
  }
}

TEST_F(RegimeFault, ASyncGroupTakesAReplacementAtItsStepBoundary) {
  StartCluster(2);
  const std::vector<std::string> flags = {"--workers", "4",  "--sync-group-size", "2",
                                          "--steps",   "80", "--step-ms",         "40"};
  for (const char* name : {"a", "b", "c", "d"}) {
    StartWorker(name, flags);
    WEIR_ASSERT_OK(cluster_->WaitForLine(name, "joined rank=", kSoon));
  }
  AwaitStep("a", 5);
  WEIR_ASSERT_OK(cluster_->Kill("b"));
  // Its rank is taken until its lease has ended.
  const auto gone = [&] { return ShowJob("counting").workers_size() == 3; };
  EXPECT_TRUE(cluster_->WaitUntil(gone, kSoon));
  StartWorker("e", flags);
  AwaitStep("e", 1);
  for (const char* name : {"a", "c", "d", "e"}) {
    EXPECT_THAT(AwaitFinish(name), HasSubstr("weight=160 attempt=1 lost=0"));
    EXPECT_THAT(cluster_->Output(name), HasNoFailure());
  }
}

TEST_F(RegimeFault, ACheckpointIsCutBetweenTheStepsOfEverySyncGroup) {
  StartCluster(2);
  const std::vector<std::string> flags = {"--workers", "4",   "--sync-group-size", "2",
                                          "--steps",   "150", "--step-ms",         "20"};
  for (const char* name : {"a", "b", "c", "d"}) StartWorker(name, flags);
  AwaitStep("a", 5);
  const v1::Manifest saved = SaveCheckpoint("counting");
  // A step of a group is one of all the updates, and each of its two members' examples.
  EXPECT_EQ(saved.group_steps(1) * 2, saved.examples());
  for (const char* name : {"a", "b", "c", "d"}) {
    EXPECT_THAT(AwaitFinish(name), HasSubstr("weight=300 attempt=1 lost=0"));
  }
}

TEST_F(RegimeFault, WithABackupAStalledWorkerStopsNobodyAndNeitherDoesItsDeath) {
  StartCluster(2);
  const std::vector<std::string> flags = {"--workers", "3",       "--backup-workers",
                                          "1",         "--steps", "40"};
  std::vector<std::string> holding = flags;
  holding.insert(holding.end(), {"--hold-at", "10"});
  StartWorker("a", flags);
  StartWorker("b", flags);
  StartWorker("c", holding);
  WEIR_ASSERT_OK(cluster_->WaitForLine("c", "waiting at step", kSoon));
  // Its lease goes on: nobody is removed.
  AwaitStep("a", 39);
  EXPECT_EQ(ShowJob("counting").workers_size(), 3);
  WEIR_ASSERT_OK(cluster_->Kill("c"));  // the end waits for all that are alive
  EXPECT_THAT(AwaitFinish("a"), HasSubstr("weight=40 attempt=1 lost=0"));
  EXPECT_THAT(AwaitFinish("b"), HasSubstr("weight=40 attempt=1 lost=0"));
}

TEST_F(RegimeFault, TheLatePushesOfASlowWorkerAreDroppedAndCounted) {
  StartCluster(2);
  const std::vector<std::string> flags = {"--workers", "3",       "--backup-workers",
                                          "1",         "--steps", "100"};
  std::vector<std::string> fast = flags;
  fast.insert(fast.end(), {"--step-ms", "10"});
  std::vector<std::string> slow = flags;
  slow.insert(slow.end(), {"--step-ms", "100"});
  StartWorker("a", fast);
  StartWorker("b", fast);
  StartWorker("c", slow);
  WEIR_ASSERT_OK(cluster_->WaitForLine("c", "late at step", kSoon));
  const auto counted = [&] { return ShowJob("counting").late_pushes() > 0; };
  EXPECT_TRUE(cluster_->WaitUntil(counted, kSoon));
  for (const char* name : {"a", "b", "c"}) {
    EXPECT_THAT(AwaitFinish(name), HasSubstr("weight=100 attempt=1 lost=0"));
    EXPECT_THAT(cluster_->Output(name), HasNoFailure());
  }
}

}  // namespace
}  // namespace weir
