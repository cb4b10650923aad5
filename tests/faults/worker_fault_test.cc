// SPDX-License-Identifier: Apache-2.0
// Workers that die, leave or come while others train.
#include <signal.h>

#include <iostream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/faults/fault_test.h"

namespace weir {
namespace {

using ::testing::AnyOf;
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
  std::cout << "The others waited for " << waited << " under a lease of 2 s.\n";
  EXPECT_LT(waited, absl::Seconds(12));  // the lease of 2 s, and 10 s
  // A mean over those who are left is still -1.
  EXPECT_THAT(AwaitFinish("a"), HasSubstr("weight=20 attempt=1 lost=0"));
  EXPECT_THAT(AwaitFinish("b"), HasSubstr("weight=20 attempt=1 lost=0"));
  EXPECT_THAT(cluster_->Output("a"), HasNoFailure());
}

// Of its 0.8 MB for each server, in one message, 300,000 bytes have gone out. While three train the
// mean of their pushes is (1 + 1 + 4) / 3 = 2, and 1 when two are left: 10 * 2 + 10 * 1 = 30.
TEST_F(WorkerFault, APushThatItsDeathHasTornIsNotCounted) {
  StartCluster(2);
  StartWorker("a", {"--workers", "3", "--steps", "20"});
  StartWorker("b", {"--workers", "3", "--steps", "20"});
  StartWorker("c", {"--workers", "3", "--steps", "20", "--amount", "4", "--hold-in", "10",
                    "--hold-after-bytes", "300000"});
  WEIR_ASSERT_OK(cluster_->WaitForLine("c", "holding after 300000 bytes", kSoon));
  WEIR_ASSERT_OK(cluster_->Kill("c"));
  EXPECT_THAT(AwaitFinish("a"), HasSubstr("weight=30 attempt=1 lost=0"));
  EXPECT_THAT(AwaitFinish("b"), HasSubstr("weight=30 attempt=1 lost=0"));
  for (const char* worker : {"a", "b"}) {
    EXPECT_THAT(cluster_->Output(worker), HasNoFailure());
    EXPECT_THAT(cluster_->Output(worker), Not(HasSubstr("mixed")));
  }
}

// Of its 8 MB, in messages of at most 1 MB, all but the last 0.1 MB have gone out: where whole
// messages have arrived chunks count its part of step 10 and are 31, the others are 30. A chunk has
// 128 KiB, 32,768 elements.
TEST_F(WorkerFault, OfATornPushEachChunkIsCountedWhollyOrNotAtAll) {
  StartCluster(2);
  const std::string elements = "2000000";
  StartWorker("a", {"--workers", "3", "--steps", "20", "--elements", elements});
  StartWorker("b", {"--workers", "3", "--steps", "20", "--elements", elements});
  StartWorker("c", {"--workers", "3", "--steps", "20", "--elements", elements, "--amount", "4",
                    "--hold-in", "10", "--hold-after-bytes", "7900000"});
  WEIR_ASSERT_OK(cluster_->WaitForLine("c", "holding after 7900000 bytes", kSoon));
  WEIR_ASSERT_OK(cluster_->Kill("c"));
  const std::string finish = AwaitFinish("a");
  EXPECT_THAT(cluster_->Output("a"), HasNoFailure());
  std::cout << finish << "\n";
  if (absl::StrContains(finish, "weight=30 ")) return;  // no message was whole
  ASSERT_THAT(finish, HasSubstr("weight=mixed attempt=1 lost=0"));
  WEIR_ASSERT_OK_AND_ASSIGN(const std::string values,
                            cluster_->WaitForLine("a", "values 30 31 in runs of ", kSoon));
  const std::vector<std::string> words = absl::StrSplit(values, ' ');
  uint64_t run = 0;
  ASSERT_TRUE(absl::SimpleAtoi(words[6], &run));
  EXPECT_EQ(run % 32768, 0) << values;
}

// It is not killed but stands still, its connections too, and its lease ends: what it sends
// afterwards is from nobody.
TEST_F(WorkerFault, ThePushOfAWorkerThatWasGivenUpInsideItIsNotCounted) {
  StartCluster(2);
  StartWorker("a", {"--workers", "2", "--steps", "20"});
  StartWorker("b", {"--workers", "2", "--steps", "20", "--amount", "3", "--hold-in", "10",
                    "--hold-after-bytes", "300000"});
  WEIR_ASSERT_OK(cluster_->WaitForLine("b", "holding after 300000 bytes", kSoon));
  AwaitStep("a", 10);
  cluster_->Signal("b", SIGUSR1);
  WEIR_ASSERT_OK(cluster_->WaitForLine("b", "step 10 failed: ABORTED", kSoon));
  // (1 + 3) / 2 in the first ten steps, and 1 in the others.
  EXPECT_THAT(AwaitFinish("a"), HasSubstr("weight=30 attempt=1 lost=0"));
  WEIR_ASSERT_OK_AND_ASSIGN(const ExitState state, cluster_->WaitForExit("b", kSoon));
  EXPECT_EQ(state.code, 1) << cluster_->Output("b");
}

TEST_F(WorkerFault, AnAsyncPushThatItsWorkersDeathHasTornIsNotApplied) {
  StartCluster(2);
  StartWorker("a", {"--workers", "2", "--steps", "60", "--step-ms", "20", "--async"});
  StartWorker("b", {"--workers", "2", "--steps", "60", "--async", "--amount", "100", "--hold-in",
                    "10", "--hold-after-bytes", "300000"});
  WEIR_ASSERT_OK(cluster_->WaitForLine("b", "holding after 300000 bytes", kSoon));
  WEIR_ASSERT_OK(cluster_->Kill("b"));
  // 60 pushes of a, and the 10 of b that were whole.
  EXPECT_THAT(AwaitFinish("a"), HasSubstr("weight=1060 attempt=1 lost=0"));
  EXPECT_THAT(cluster_->Output("a"), HasNoFailure());
}

// Of step 10 nothing, or nothing whole, has arrived: its successor runs it, or goes on behind it.
TEST_F(WorkerFault, TheOnlyWorkerKilledInsideAPushIsReplaced) {
  StartCluster(2);
  StartWorker("a", {"--workers", "1", "--steps", "20", "--step-ms", "100", "--hold-in", "10",
                    "--hold-after-bytes", "300000"});
  WEIR_ASSERT_OK(cluster_->WaitForLine("a", "holding after 300000 bytes", kSoon));
  WEIR_ASSERT_OK(cluster_->Kill("a"));
  // Its rank is taken until its lease has ended.
  WEIR_ASSERT_OK(cluster_->WaitForLine("coordinator", "worker goes", kSoon));
  StartWorker("b", {"--workers", "1", "--steps", "20"});
  EXPECT_THAT(AwaitFinish("b"), AnyOf(HasSubstr("weight=20 attempt=1 lost=0"),
                                      HasSubstr("weight=19 attempt=1 lost=0")));
  EXPECT_THAT(cluster_->Output("b"), HasNoFailure());
}

TEST_F(WorkerFault, AWorkerWhoseDataEndsEarlierLeavesAndTheOthersFinish) {
  StartCluster(1);
  StartWorker("a", {"--workers", "2", "--steps", "30"});
  StartWorker("b", {"--workers", "2", "--steps", "30", "--leave-at", "10"});
  WEIR_ASSERT_OK_AND_ASSIGN(const ExitState left, cluster_->WaitForExit("b", kSoon));
  EXPECT_TRUE(left.ok()) << cluster_->Output("b");
  EXPECT_THAT(AwaitFinish("a"), HasSubstr("weight=30 attempt=1 lost=0"));
  EXPECT_THAT(cluster_->Output("a"), HasNoFailure());
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
    EXPECT_THAT(cluster_->Output(worker), HasNoFailure());
    EXPECT_THAT(cluster_->Output(worker), Not(HasSubstr("mixed")));
  }
}

// Each step doubles the weights that its workers have pulled for it. One on the weights of the step
// before would make 1.75 of the double, for ever.
TEST_F(WorkerFault, AWorkerThatJoinsTrainsOnTheWeightsOfItsFirstStep) {
  StartCluster(2);
  const std::vector<std::string> flags = {"--workers",  "2",      "--min-workers", "1",
                                          "--steps",    "60",     "--step-ms",     "50",
                                          "--gradient", "weights"};
  StartWorker("a", flags);
  AwaitStep("a", 5);
  StartWorker("b", flags);
  AwaitStep("b", 1);
  // 2 ^ 60
  EXPECT_THAT(AwaitFinish("a"), HasSubstr("weight=1.1529215e+18 attempt=1 lost=0"));
  EXPECT_THAT(AwaitFinish("b"), HasSubstr("weight=1.1529215e+18 attempt=1 lost=0"));
}

// It is in its first pull, which waits for the steps before its own, when a server dies.
TEST_F(WorkerFault, AWorkerThatWaitsForItsFirstStepFollowsARollback) {
  StartCluster(2);
  const std::vector<std::string> flags = {"--workers", "2",  "--min-workers", "1",
                                          "--steps",   "20", "--hold-at",     "10"};
  StartWorker("a", flags);
  WEIR_ASSERT_OK(cluster_->WaitForLine("a", "waiting at step 10", kSoon));
  StartWorker("b", {"--workers", "2", "--min-workers", "1", "--steps", "20"});
  AwaitView("counting", [](const v1::JobView& view) { return view.members_size() == 2; });
  WEIR_ASSERT_OK(cluster_->Kill("server-0"));
  WEIR_ASSERT_OK(cluster_->StartServer(0));
  AwaitView("counting", [](const v1::JobView& view) { return view.attempt() == 2; });
  WEIR_ASSERT_OK(cluster_->Kill("a"));
  EXPECT_THAT(AwaitFinish("b"), HasSubstr("weight=20 attempt=2"));
  EXPECT_THAT(cluster_->Output("b"), HasNoFailure());
}

TEST_F(WorkerFault, AKilledAsyncWorkerCostsTheOthersNothing) {
  StartCluster(2);
  StartWorker("a", {"--workers", "2", "--steps", "60", "--step-ms", "20", "--async"});
  StartWorker("b", {"--workers", "2", "--steps", "60", "--hold-at", "10", "--async"});
  WEIR_ASSERT_OK(cluster_->WaitForLine("b", "waiting at step 10", kSoon));
  WEIR_ASSERT_OK(cluster_->Kill("b"));
  // 60 pushes of a, and the 10 that b had been told were applied.
  EXPECT_THAT(AwaitFinish("a"), HasSubstr("weight=70 attempt=1 lost=0"));
  EXPECT_THAT(cluster_->Output("a"), HasNoFailure());
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
