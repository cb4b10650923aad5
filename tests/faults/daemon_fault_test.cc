// SPDX-License-Identifier: Apache-2.0
// Coordinators and servers that die while workers train.
#include <signal.h>

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <future>
#include <iostream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rpc/channels.h"
#include "tests/faults/fault_test.h"
#include "tests/support/allocator_kind.h"
#include "weir/v1/server_control.grpc.pb.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using DaemonFault = FaultTest;

uint64_t HeapBytes(pid_t pid) {
  std::ifstream maps(absl::StrCat("/proc/", pid, "/maps"));
  for (std::string line; std::getline(maps, line);) {
    uint64_t begin = 0;
    uint64_t end = 0;
    if (!absl::EndsWith(line, "[heap]")) continue;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64, &begin, &end) == 2) return end - begin;
  }
  return 0;
}

// Of what KeepFreedMemory sets one thing shows from outside: a heap that grows does so by 64 MiB.
TEST_F(DaemonFault, AServerKeepsFreedMemoryFromItsStart) {
  if (!kGlibcAllocator) GTEST_SKIP() << "another allocator than glibc's";
  StartCluster(1);
  StartWorker("a", {"--workers", "1", "--steps", "20"});
  AwaitFinish("a");
  EXPECT_GE(HeapBytes(cluster_->Pid("server-0")), 64 << 20);
}

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
  EXPECT_THAT(cluster_->Output("a"), HasNoFailure());
  EXPECT_THAT(cluster_->Output("b"), HasNoFailure());
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

TEST_F(DaemonFault, AServerThatIsAskedToEndIsDoneWithoutAtOnce) {
  StartCluster({.servers = 2, .lease = absl::Minutes(10)});
  StartWorker("a", {"--steps", "80", "--step-ms", "20"});
  AwaitStep("a", 10);
  SaveCheckpoint("counting");
  cluster_->Terminate("server-1");
  EXPECT_THAT(AwaitFinish("a"), HasSubstr("weight=80"));
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

TEST_F(DaemonFault, AWrongCommandLineIsSaidAndEndsWithStatusTwo) {
  StartCluster(0);
  for (const char* program : {"weir-coordinator", "weir-server"}) {
    WEIR_ASSERT_OK(cluster_->StartProgram(program, program, {"--lissen", "127.0.0.1:0"}));
    WEIR_ASSERT_OK_AND_ASSIGN(const ExitState state, cluster_->WaitForExit(program, kSoon));
    EXPECT_EQ(state.code, 2);
    EXPECT_THAT(cluster_->Output(program), HasSubstr("Run with --help"));
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

// Worker a's push waits for b's, so a drain cannot end; and the cut of a checkpoint waits for the
// same step.
TEST_F(DaemonFault, AServerAskedToEndWhileADrainAndACutWaitDoesSoInItsTime) {
  StartCluster({.servers = 1, .server_flags = {"--drain-timeout-ms", "1000"}});
  StartWorker("a", {"--workers", "2", "--steps", "20"});
  StartWorker("b", {"--workers", "2", "--steps", "20", "--hold-at", "10"});
  WEIR_ASSERT_OK(cluster_->WaitForLine("b", "waiting at step 10", kSoon));
  AwaitStep("a", 9);
  AwaitParts("counting");
  WEIR_ASSERT_OK_AND_ASSIGN(const auto channel, Dial(cluster_->address("server-0")));
  const auto server = v1::ServerControl::NewStub(channel);
  v1::DrainRequest drain;
  drain.set_term(ShowJob("counting").view().term());
  auto drained = std::async(std::launch::async, [&] {
    grpc::ClientContext context;
    v1::DrainReply reply;
    return server->Drain(&context, drain, &reply).error_code();
  });
  // Behind the drain in the server's queue.
  grpc::ClientContext context;
  v1::AbortStepRequest other;
  other.set_term(drain.term());
  v1::AbortStepReply reply;
  EXPECT_FALSE(server->AbortStep(&context, other, &reply).ok()) << "of no run";
  EXPECT_EQ(drained.wait_for(std::chrono::seconds(0)), std::future_status::timeout);

  const absl::Time asked = Clock::Real().Now();
  cluster_->Terminate("server-0");
  WEIR_ASSERT_OK_AND_ASSIGN(const ExitState state, cluster_->WaitForExit("server-0", kSoon));
  const absl::Duration took = Clock::Real().Now() - asked;
  std::cout << "It took " << took << " to end, 1 s of it to drain.\n";
  EXPECT_TRUE(state.ok()) << state.ToString() << "\n" << cluster_->Output("server-0");
  EXPECT_LT(took, absl::Seconds(12));  // 1 s to drain, 1 s for the last calls, and 10 s
  EXPECT_EQ(drained.wait_for(std::chrono::seconds(60)), std::future_status::ready);
}

}  // namespace
}  // namespace weir
