// SPDX-License-Identifier: Apache-2.0
// Workers that die, leave or come while others train.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/faults/fault_test.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using WorkerFault = FaultTest;

TEST_F(WorkerFault, AWorkerKilledInsideASyncStepIsNotWaitedForBeyondItsLease) {
  StartCluster(2);
  StartWorker("a", {"--workers", "3", "--steps", "20"});
  StartWorker("b", {"--workers", "3", "--steps", "20"});
  StartWorker("c", {"--workers", "3", "--steps", "20", "--hold-at", "10"});
  WEIR_ASSERT_OK(cluster_->WaitForLine("c", "waiting at step 10", kSoon));
  const absl::Time killed = Clock::Real().Now();
  WEIR_ASSERT_OK(cluster_->Kill("c"));
  AwaitStep("a", 10);
  const absl::Duration waited = Clock::Real().Now() - killed;
  RecordProperty("waited_ms", static_cast<int>(absl::ToInt64Milliseconds(waited)));
  EXPECT_LT(waited, absl::Seconds(12));  // the lease of 2 s, and 10 s
  // A mean over those who are left is still -1.
  EXPECT_THAT(AwaitFinish("a"), HasSubstr("weight=20 attempt=1 lost=0"));
  EXPECT_THAT(AwaitFinish("b"), HasSubstr("weight=20 attempt=1 lost=0"));
  EXPECT_THAT(cluster_->Output("a"), Not(HasSubstr("failed")));
}

TEST_F(WorkerFault, AWorkerWhoseDataEndsEarlierLeavesAndTheOthersFinish) {
  StartCluster(1);
  StartWorker("a", {"--workers", "2", "--steps", "30"});
  StartWorker("b", {"--workers", "2", "--steps", "30", "--leave-at", "10"});
  WEIR_ASSERT_OK_AND_ASSIGN(const ExitState left, cluster_->WaitForExit("b", kSoon));
  EXPECT_TRUE(left.ok()) << cluster_->Output("b");
  EXPECT_THAT(AwaitFinish("a"), HasSubstr("weight=30 attempt=1 lost=0"));
  EXPECT_THAT(cluster_->Output("a"), Not(HasSubstr("failed")));
}

TEST_F(WorkerFault, ASecondWorkerJoinsARunningSyncJobAtAStepBoundary) {
  StartCluster(2);
  const std::vector<std::string> flags = {"--workers", "2",  "--min-workers", "1",
                                          "--steps",   "60", "--step-ms",     "50"};
  StartWorker("a", flags);
  AwaitStep("a", 5);
  StartWorker("b", flags);
  // It counts from some step on, in which both are waited for.
  AwaitStep("b", 1);
  EXPECT_THAT(AwaitFinish("a"), HasSubstr("weight=60 attempt=1 lost=0"));
  EXPECT_THAT(AwaitFinish("b"), HasSubstr("weight=60 attempt=1 lost=0"));
  for (const char* worker : {"a", "b"}) {
    EXPECT_THAT(cluster_->Output(worker), Not(HasSubstr("failed")));
    EXPECT_THAT(cluster_->Output(worker), Not(HasSubstr("mixed")));
  }
}

TEST_F(WorkerFault, AKilledAsyncWorkerCostsTheOthersNothing) {
  StartCluster(2);
  StartWorker("a", {"--workers", "2", "--steps", "60", "--step-ms", "20", "--async"});
  StartWorker("b", {"--workers", "2", "--steps", "60", "--hold-at", "10", "--async"});
  WEIR_ASSERT_OK(cluster_->WaitForLine("b", "waiting at step 10", kSoon));
  WEIR_ASSERT_OK(cluster_->Kill("b"));
  // 60 pushes of a, and the 10 that b had been told were applied.
  EXPECT_THAT(AwaitFinish("a"), HasSubstr("weight=70 attempt=1 lost=0"));
  EXPECT_THAT(cluster_->Output("a"), Not(HasSubstr("failed")));
}

TEST_F(WorkerFault, TwoJobsWithEqualVariableNamesDoNotMeet) {
  StartCluster(2);
  StartWorker("a", {"--job", "first", "--steps", "20"});
  StartWorker("b", {"--job", "second", "--steps", "35"});
  EXPECT_THAT(AwaitFinish("a"), HasSubstr("weight=20 "));
  EXPECT_THAT(AwaitFinish("b"), HasSubstr("weight=35 "));
  EXPECT_EQ(ShowJob("first").view().state(), v1::JOB_STATE_FINISHED);
  EXPECT_EQ(ShowJob("second").view().state(), v1::JOB_STATE_FINISHED);
}

}  // namespace
}  // namespace weir
