// SPDX-License-Identifier: Apache-2.0
// The coordinator dies in the middle of what it does with servers and workers. Leases are long:
// here nobody is dead but it, though some are made to stand still so that it is found in the
// middle.
#include <signal.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/faults/fault_test.h"
#include "tests/support/eventually.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class CoordinatorFault : public FaultTest {
 protected:
  // Two async workers that use each example of an epoch once (counting_worker.h).
  void StartDataJob() {
    StartCluster({.servers = 2, .lease = absl::Seconds(30)});
    for (const char* worker : {"a", "b"}) {
      StartWorker(worker, {"--workers", "2", "--async", "--gradient", "data", "--examples", "5000",
                           "--step-ms", "20"});
    }
    AwaitStep("a", 10);
    AwaitStep("b", 10);
  }
  void RestartServer(int index) {
    WEIR_ASSERT_OK(cluster_->Kill(absl::StrCat("server-", index)));
    WEIR_ASSERT_OK(cluster_->StartServer(index));
  }
};

TEST_F(CoordinatorFault, KilledWhileACutIsMarkedItLosesNoExampleAndUsesNoneTwice) {
  StartDataJob();
  cluster_->Signal("b", SIGSTOP);
  BeginCheckpoint("counting");
  AwaitView("counting", [](const v1::JobView& view) { return view.cut() > 0; });
  WEIR_ASSERT_OK(cluster_->Kill("coordinator"));
  cluster_->Signal("b", SIGCONT);
  WEIR_ASSERT_OK(cluster_->StartCoordinator());
  // Not while they wait for more data, of which there was none for want of a coordinator.
  AwaitStep("a", 50);
  AwaitStep("b", 50);
  // The data's position is whole: from the next checkpoint on all is done again, and right.
  const v1::Manifest manifest = SaveCheckpoint("counting");
  RestartServer(1);
  WEIR_ASSERT_OK(cluster_->WaitForLine("a", "resumed at step", kSoon));
  EXPECT_EQ(ShowJob("counting").view().resume().checkpoint_id(), manifest.id());
  EXPECT_THAT(AwaitFinish("a"), HasSubstr("weight=1 attempt=2"));
  EXPECT_THAT(AwaitFinish("b"), HasSubstr("weight=1 attempt=2"));
}

TEST_F(CoordinatorFault, KilledWhilePartsAreWrittenItLeavesNoCheckpointAndNoPart) {
  StartDataJob();
  cluster_->Signal("server-1", SIGSTOP);
  BeginCheckpoint("counting");
  WEIR_ASSERT_OK(cluster_->WaitForLine("server-0", "part saved", kSoon));
  WEIR_ASSERT_OK(cluster_->Kill("coordinator"));
  cluster_->Signal("server-1", SIGCONT);
  const std::string parts = folder_ + "/server-0/checkpoints/server-0/counting";
  const auto part_of_it = [&] {
    for (const auto& entry : std::filesystem::directory_iterator(parts)) {
      if (entry.path().filename() != "live") return true;
    }
    return false;
  };
  EXPECT_TRUE(part_of_it());
  WEIR_ASSERT_OK(cluster_->StartCoordinator());
  EXPECT_THAT(Checkpoints("counting"), IsEmpty());
  EXPECT_TRUE(Eventually([&] { return !part_of_it(); }, kSoon));
  EXPECT_THAT(AwaitFinish("a"), HasSubstr("weight=1 attempt=1 lost=0"));
  EXPECT_THAT(AwaitFinish("b"), HasSubstr("weight=1 attempt=1 lost=0"));
}

TEST_F(CoordinatorFault, KilledDuringARestoreItAsksForItAgain) {
  StartDataJob();
  const v1::Manifest manifest = SaveCheckpoint("counting");
  cluster_->Signal("server-0", SIGSTOP);
  RestartServer(1);
  AwaitView("counting", [](const v1::JobView& view) {
    return view.attempt() == 2 && view.state() == v1::JOB_STATE_RESTORING;
  });
  WEIR_ASSERT_OK(cluster_->Kill("coordinator"));
  cluster_->Signal("server-0", SIGCONT);
  WEIR_ASSERT_OK(cluster_->StartCoordinator());
  EXPECT_THAT(AwaitFinish("a"), HasSubstr("weight=1 attempt=2"));
  EXPECT_THAT(AwaitFinish("b"), HasSubstr("weight=1 attempt=2"));
  EXPECT_EQ(ShowJob("counting").view().resume().checkpoint_id(), manifest.id());
}

// Both servers have been told at which step to cut, and wait for worker b to come there.
TEST_F(CoordinatorFault, KilledWhileASyncCutWaitsItHoldsNobodyAndCutsAgain) {
  StartCluster({.servers = 2, .lease = absl::Seconds(30)});
  const std::vector<std::string> flags = {"--workers", "2", "--steps", "150", "--step-ms", "20"};
  StartWorker("a", flags);
  StartWorker("b", flags);
  AwaitStep("a", 10);
  cluster_->Signal("b", SIGSTOP);
  AwaitParts("counting");
  std::vector<std::string> whole = Checkpoints("counting");
  WEIR_ASSERT_OK(cluster_->Kill("coordinator"));
  cluster_->Signal("b", SIGCONT);
  WEIR_ASSERT_OK(cluster_->StartCoordinator());
  const v1::Manifest manifest = SaveCheckpoint("counting");
  whole.insert(whole.begin(), manifest.id());
  EXPECT_EQ(Checkpoints("counting"), whole);
  EXPECT_THAT(AwaitFinish("a"), HasSubstr("weight=150 attempt=1 lost=0"));
  EXPECT_THAT(AwaitFinish("b"), HasSubstr("weight=150 attempt=1 lost=0"));
  for (const char* worker : {"a", "b"}) {
    EXPECT_THAT(cluster_->Output(worker), HasNoFailure());
    EXPECT_THAT(cluster_->Output(worker), Not(HasSubstr("mixed")));
  }
}

// gRPC reads from connections only while a thread waits in it. A worker that has not begun has none
// that does but those which tell the coordinator that it lives: where these slept outside of it, a
// connection would stay half made for three seconds, and a lease of three be over.
TEST_F(CoordinatorFault, ComesBackWhileAClientWaitsToCallAgainAndIsReached) {
  StartCluster(1);
  WEIR_ASSERT_OK_AND_ASSIGN(
      const auto client,
      CoordinatorClient::Create({.address = cluster_->coordinator(), .clock = &Clock::Real()}));
  const auto ask = [&client] {
    return client
        ->CallOnce(&CoordinatorStub::Status, v1::StatusRequest(), Clock::Real().Now() + kSoon)
        .status();
  };
  WEIR_ASSERT_OK(cluster_->Kill("coordinator"));
  EXPECT_TRUE(absl::IsUnavailable(ask()));
  WEIR_ASSERT_OK(cluster_->StartCoordinator());
  ASSERT_TRUE(client->Sleep(absl::Seconds(2)));
  WEIR_EXPECT_OK(ask());
}

}  // namespace
}  // namespace weir
