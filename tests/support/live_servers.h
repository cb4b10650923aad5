// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "rpc/coordinator_client.h"
#include "tests/support/process_cluster.h"
#include "tests/support/status_matchers.h"

namespace weir {

// Until the coordinator knows that so many servers live.
inline void AwaitLiveServers(ProcessCluster& cluster, int count, absl::Duration timeout) {
  WEIR_ASSERT_OK_AND_ASSIGN(
      const auto coordinator,
      CoordinatorClient::Create({.address = cluster.coordinator(), .clock = &Clock::Real()}));
  const auto come_true = [&] {
    const auto status = coordinator->Call(&CoordinatorStub::Status, v1::StatusRequest(),
                                          Clock::Real().Now() + timeout);
    return status.ok() && std::count_if(status->servers().begin(), status->servers().end(),
                                        [](const auto& server) { return server.live(); }) == count;
  };
  ASSERT_TRUE(cluster.WaitUntil(come_true, timeout));
}

}  // namespace weir
