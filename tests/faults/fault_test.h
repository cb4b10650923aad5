// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "rpc/coordinator_client.h"
#include "tests/support/process_cluster.h"
#include "tests/support/status_matchers.h"

namespace weir {

// How long a test waits for what must come: a lease, and a loaded machine's slowness.
constexpr absl::Duration kSoon = absl::Seconds(60);

// Tests that kill processes of a cluster with short leases.
class FaultTest : public ::testing::Test {
 protected:
  void StartCluster(int servers);

  // Starts a counting worker (counting_worker.h).
  void StartWorker(const std::string& name, std::vector<std::string> flags);
  // Waits until the worker has printed "step S ...", or a later step.
  void AwaitStep(const std::string& worker, uint64_t step);
  // Waits for its exit with status 0 and returns its line "finished ...".
  std::string AwaitFinish(const std::string& worker);

  v1::JobStatus ShowJob(const std::string& job);
  v1::Manifest SaveCheckpoint(const std::string& job);

  const std::string folder_ = MakeFolder();
  std::unique_ptr<ProcessCluster> cluster_;
  std::unique_ptr<CoordinatorClient> coordinator_;

 private:
  static std::string MakeFolder();
};

}  // namespace weir
