// SPDX-License-Identifier: Apache-2.0
// Coordinators and servers that die while workers train.
#include <signal.h>

#include "absl/strings/str_cat.h"
#include "tests/faults/fault_test.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using DaemonFault = FaultTest;

TEST_F(DaemonFault, NoStepFailsWhileTheCoordinatorIsAwayNorAfterIt) {
  StartCluster(2);
  const std::vector<std::string> flags = {"--workers", "2", "--steps", "200", "--step-ms", "20"};
  StartWorker("a", flags);
  StartWorker("b", flags);
  AwaitStep("a", 20);
  WEIR_ASSERT_OK(cluster_->Kill("coordinator"));
  // 100 steps of 20 ms are as long as the lease.
  AwaitStep("a", 120);
  WEIR_ASSERT_OK(cluster_->StartCoordinator());
  EXPECT_THAT(AwaitFinish("a"), HasSubstr("weight=200 attempt=1 lost=0"));
  EXPECT_THAT(AwaitFinish("b"), HasSubstr("weight=200 attempt=1 lost=0"));
  EXPECT_THAT(cluster_->Output("a"), Not(HasSubstr("failed")));
  EXPECT_THAT(cluster_->Output("b"), Not(HasSubstr("failed")));
  EXPECT_EQ(ShowJob("counting").view().state(), v1::JOB_STATE_FINISHED);
}

TEST_F(DaemonFault, AServerKilledAndRestartedSendsTheJobBackToItsCheckpointWithTheSameWorkers) {
  StartCluster(2);
  const std::vector<std::string> flags = {"--workers", "2", "--steps", "150", "--step-ms", "20"};
  StartWorker("a", flags);
  StartWorker("b", flags);
  AwaitStep("a", 20);
  const v1::Manifest manifest = SaveCheckpoint("counting");
  EXPECT_GE(manifest.step(), 20);
  AwaitStep("a", manifest.step() + 10);
  WEIR_ASSERT_OK(cluster_->Kill("server-1"));
  WEIR_ASSERT_OK(cluster_->StartServer(1));
  WEIR_ASSERT_OK(cluster_->WaitForLine(
      "a", absl::StrCat("resumed at step ", manifest.step(), " attempt=2"), kSoon));
  // Every step from the checkpoint on was done again, and counted once.
  const std::string a = AwaitFinish("a");
  EXPECT_THAT(a, HasSubstr("weight=150 attempt=2"));
  EXPECT_THAT(a, Not(HasSubstr("lost=0")));
  EXPECT_THAT(AwaitFinish("b"), HasSubstr("weight=150 attempt=2"));
  const v1::JobView view = ShowJob("counting").view();
  EXPECT_EQ(view.resume().checkpoint_id(), manifest.id());
  EXPECT_GE(view.resume().lost_steps(), 10);
}

TEST_F(DaemonFault, WithoutACheckpointALostServerSendsTheJobBackToItsFirstValues) {
  StartCluster(2);
  StartWorker("a", {"--steps", "80", "--step-ms", "20"});
  AwaitStep("a", 20);
  WEIR_ASSERT_OK(cluster_->Kill("server-0"));
  WEIR_ASSERT_OK(cluster_->StartServer(0));
  EXPECT_THAT(AwaitFinish("a"), HasSubstr("weight=80 attempt=2"));
}

TEST_F(DaemonFault, AServerThatStaysAwayIsDoneWithoutAfterItsLease) {
  StartCluster(2);
  StartWorker("a", {"--steps", "80", "--step-ms", "20"});
  AwaitStep("a", 10);
  SaveCheckpoint("counting");
  WEIR_ASSERT_OK(cluster_->Kill("server-1"));
  const std::string finish = AwaitFinish("a");
  EXPECT_THAT(finish, HasSubstr("weight=80"));
  EXPECT_EQ(ShowJob("counting").view().state(), v1::JOB_STATE_FINISHED);
}

TEST_F(DaemonFault, APortInUseIsOneClearLineAndExitStatusOne) {
  StartCluster(0);
  for (const char* program : {"weir-coordinator", "weir-server"}) {
    std::vector<std::string> flags = {"--listen", cluster_->coordinator(), "--data-dir",
                                      folder_ + "/second"};
    if (program == std::string("weir-server")) {
      flags.insert(flags.end(), {"--coordinator", cluster_->coordinator(), "--name", "second"});
    }
    WEIR_ASSERT_OK(cluster_->StartProgram(program, program, flags));
    WEIR_ASSERT_OK_AND_ASSIGN(const ExitState state, cluster_->WaitForExit(program, kSoon));
    EXPECT_EQ(state.code, 1);
    EXPECT_THAT(cluster_->Output(program), HasSubstr(cluster_->coordinator()));
    EXPECT_THAT(cluster_->Output(program), Not(HasSubstr("ready address")));
  }
}

TEST_F(DaemonFault, DaemonsAskedToEndDoSoWithStatusZero) {
  StartCluster(1);
  for (const char* name : {"server-0", "coordinator"}) {
    cluster_->Terminate(name);
    WEIR_ASSERT_OK_AND_ASSIGN(const ExitState state, cluster_->WaitForExit(name, kSoon));
    EXPECT_TRUE(state.ok()) << name << ": " << state.ToString() << "\n" << cluster_->Output(name);
  }
}

}  // namespace
}  // namespace weir
