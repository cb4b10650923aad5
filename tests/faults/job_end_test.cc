// SPDX-License-Identifier: Apache-2.0
// What a job leaves behind on a real cluster.
#include <unistd.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/faults/fault_test.h"
#include "tests/support/allocator_kind.h"

namespace weir {
namespace {

constexpr uint64_t kElements = 8'000'000;
constexpr uint64_t kBytes = kElements * sizeof(float);

class JobEnd : public FaultTest {
 protected:
  v1::ServerStatus Server() {
    auto reply = coordinator_->Call(&CoordinatorStub::Status, v1::StatusRequest(),
                                    Clock::Real().Now() + kSoon);
    EXPECT_THAT(reply, IsOk());
    return reply.ok() ? reply->servers(0) : v1::ServerStatus();
  }
  // What the system says that the server's process has in memory.
  uint64_t ResidentBytes() {
    std::ifstream statm(absl::StrCat("/proc/", cluster_->Pid("server-0"), "/statm"));
    uint64_t pages = 0;
    uint64_t resident = 0;
    statm >> pages >> resident;
    return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  }
  bool Eventually(const std::function<bool()>& claim) { return cluster_->WaitUntil(claim, kSoon); }
};

TEST_F(JobEnd, AFinishedJobsMemoryGoesBackToTheSystem) {
  StartCluster(1);
  StartWorker("a", {"--elements", absl::StrCat(kElements), "--steps", "4", "--step-ms", "300"});
  AwaitStep("a", 1);
  EXPECT_TRUE(Eventually([&] { return Server().memory_bytes() >= kBytes; }));
  const uint64_t resident = ResidentBytes();
  EXPECT_GE(resident, kBytes);
  AwaitFinish("a");
  ASSERT_EQ(ShowJob("counting").view().state(), v1::JOB_STATE_FINISHED);
  EXPECT_TRUE(Eventually([&] { return Server().memory_bytes() == 0; })) << Server().DebugString();
  EXPECT_TRUE(Server().live());
  if (!kGlibcAllocator)
    GTEST_SKIP() << "what the system has back is not known: another allocator than glibc's";
  // Half of it: messages of later steps may have taken some that malloc keeps.
  EXPECT_LE(ResidentBytes(), resident - kBytes / 2);
}

}  // namespace
}  // namespace weir
