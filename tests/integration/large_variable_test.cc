// SPDX-License-Identifier: Apache-2.0
// "received message larger than max": no user of ours meets a limit, whatever the variable's size.
#include <gmock/gmock.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/process_cluster.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"
#include "weir/job.h"

namespace weir {
namespace {

constexpr uint64_t kElements = uint64_t{3} << 28;  // of 4 bytes: 3 GiB, and more than 2^31 bytes

// Exact in a float, and different in each wire chunk and beyond 2^24.
float Value(uint64_t i) {
  return static_cast<float>((i ^ (i >> 20)) & 0xFFFFF);
}

// What the test and its servers take together, measured.
#ifdef WEIR_SANITIZED_THREADS
constexpr uint64_t kNeededGib = 5 * 8;  // four bytes of shadow for each byte
#else
constexpr uint64_t kNeededGib = 8;
#endif

uint64_t AvailableGib() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  uint64_t kib = 0;
  while (file >> name && name != "MemAvailable:") {
  }
  file >> kib;
  return kib >> 20;
}

TEST(LargeVariable, ThreeGibibytesAreDeclaredPushedAndPulled) {
  if (AvailableGib() < kNeededGib) {
    GTEST_SKIP() << "takes " << kNeededGib << " GiB of memory; there are " << AvailableGib();
  }
  TempFolder folder;
  ProcessCluster::Options processes;
  processes.servers = 2;
  processes.folder = folder.path();
  WEIR_ASSERT_OK_AND_ASSIGN(const auto cluster, ProcessCluster::Start(processes));
  JoinOptions options;
  options.coordinator = cluster->coordinator();
  options.name = "large";
  WEIR_ASSERT_OK_AND_ASSIGN(const Job job, JoinJob(options));

  Declaration declaration;
  VariableSpec variable;
  variable.name = "w";
  variable.shape = {kElements / 1024, 1024};
  declaration.variables.push_back(variable);
  OptimizerGroup group;
  group.name = "all";
  group.learning_rate.base = 1;
  group.optimizer = Sgd();
  declaration.groups.push_back(group);
  WEIR_ASSERT_OK(job.session->Declare(declaration));
  WEIR_ASSERT_OK_AND_ASSIGN(const JobInfo info, job.session->WaitUntilReady(absl::Minutes(1)));
  ASSERT_TRUE(info.initialiser);

  std::vector<float> values(kElements);
  for (uint64_t i = 0; i < kElements; ++i) values[i] = Value(i);
  const size_t bytes = kElements * sizeof(float);
  WEIR_ASSERT_OK(
      job.parameters->Assign({{{.variable = 0, .data = values.data(), .bytes = bytes}}}));
  WEIR_ASSERT_OK(job.session->ReportInitialised());
  WEIR_ASSERT_OK(job.session->WaitUntilReady(absl::Minutes(1)));

  // The gradient is the values themselves, twice: v - v - v.
  for (uint64_t step : {0, 1}) {
    PushOptions push;
    push.step = push.group_step = step;
    push.examples = 1;
    WEIR_ASSERT_OK(
        job.parameters->Push({{{.variable = 0, .data = values.data(), .bytes = bytes}}}, push));
  }
  std::fill(values.begin(), values.end(), 1.0f);
  WEIR_ASSERT_OK(job.parameters->Pull({{{.variable = 0, .data = values.data(), .bytes = bytes}}},
                                      PullOptions()));
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < kElements; ++i) wrong += values[i] != -Value(i);
  EXPECT_EQ(wrong, 0u);
  WEIR_EXPECT_OK(job.session->Leave(true, ""));
}

}  // namespace
}  // namespace weir
