// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "rpc/coordinator_client.h"
#include "tests/support/process_cluster.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"

namespace weir {

// How long a test waits for what must come: a lease, and a loaded machine's slowness.
constexpr absl::Duration kSoon = absl::Seconds(60);

// A counting worker's output: no step failed, nor the worker. Warnings may be there.
inline auto HasNoFailure() {
  return ::testing::Not(::testing::ContainsRegex("(^|\n)(step [0-9]+ )?failed: "));
}

// Tests that kill processes of a cluster with short leases.
class FaultTest : public ::testing::Test {
 protected:
  struct ClusterOptions {
    int servers = 2;
    absl::Duration lease = absl::Seconds(2);
    std::vector<std::string> server_flags = {};
  };
  void StartCluster(const ClusterOptions& options);
  void StartCluster(int servers) { StartCluster(ClusterOptions{.servers = servers}); }

  // Starts a counting worker (counting_worker.h).
  void StartWorker(const std::string& name, std::vector<std::string> flags);
  // Waits until the worker has printed "step S ...", or a later step.
  void AwaitStep(const std::string& worker, uint64_t step);
  // Waits for its exit with status 0 and returns its line "finished ...".
  std::string AwaitFinish(const std::string& worker);

  v1::JobStatus ShowJob(const std::string& job);
  // Waits until `claim` holds of the job's view.
  void AwaitView(const std::string& job, const std::function<bool(const v1::JobView&)>& claim);
  v1::Manifest SaveCheckpoint(const std::string& job);
  // Asks for one and does not wait for it: whoever is to answer may die.
  void BeginCheckpoint(const std::string& job);
  // Begins one, and waits until servers are writing their parts, or wait for their cut.
  void AwaitParts(const std::string& job);
  // Ids of those that are committed.
  std::vector<std::string> Checkpoints(const std::string& job);

  const TempFolder temp_;  // of this process: the same test may run beside it
  const std::string folder_ = temp_.path();
  std::unique_ptr<ProcessCluster> cluster_;
  std::unique_ptr<CoordinatorClient> coordinator_;
  // Checkpoints that have begun. Ends before the client does.
  std::vector<std::future<void>> begun_;
};

}  // namespace weir
