// SPDX-License-Identifier: Apache-2.0
#include "coordinator/server_control_client.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <utility>

namespace weir {
namespace {

// Whoever stops the client may then destroy what the calls' answers refer to.
TEST(ServerControlClient, WhenStopReturnsNoCallHoldsAnythingAnyMore) {
  std::promise<void> called;
  std::promise<void> stopped;
  std::promise<bool> outlived;
  std::shared_ptr<void> held(nullptr, [&](void*) {
    // Time for a Stop that does not wait for this.
    const auto state = stopped.get_future().wait_for(std::chrono::milliseconds(300));
    outlived.set_value(state == std::future_status::ready);
  });
  ServerControlClient client(Clock::Real());
  v1::ServerInfo server;
  server.set_name("nobody");
  server.set_address("127.0.0.1:1");
  client.PrepareStep(server, v1::PrepareStepRequest(), absl::Seconds(60),
                     [&called, held = std::move(held)](const auto& reply) {
                       EXPECT_FALSE(reply.ok());
                       called.set_value();
                     });
  called.get_future().wait();
  client.Stop();
  stopped.set_value();
  EXPECT_FALSE(outlived.get_future().get());
}

}  // namespace
}  // namespace weir
