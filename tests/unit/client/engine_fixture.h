// SPDX-License-Identifier: Apache-2.0
// A transfer engine over scripted servers, in one thread.
#pragma once

#include <gmock/gmock.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/transfer_engine.h"
#include "tests/support/hand_made_view.h"
#include "tests/support/manual_executor.h"
#include "tests/support/scripted_server.h"
#include "tests/support/status_matchers.h"

namespace weir {

class EngineFixture : public ::testing::Test {
 protected:
  using Result = std::optional<absl::StatusOr<TransferResult>>;

  ~EngineFixture() override {
    for (const auto& [name, server] : servers_) server->Release();
    if (engine_ != nullptr) engine_->Shutdown();
  }

  void AddServer(const std::string& name, uint64_t incarnation, uint64_t credit_bytes = 8 << 20,
                 uint64_t payload_bytes = 1 << 20) {
    view_.servers.push_back(ServerNamed(name, incarnation));
    servers_[name] = std::make_shared<ScriptedServer>(incarnation, credit_bytes, payload_bytes);
  }

  // With the servers added and view_.declaration.
  void Start(uint64_t worker = 5) {
    if (worker != 0) view_.workers = {worker};
    TransferEngine::Options options;
    options.worker = WorkerId{worker};
    options.clock = &clock_;
    options.executor = &executor_;
    options.connect = [this](const v1::ServerInfo& server) {
      return std::shared_ptr<ParameterEndpoint>(servers_.at(server.name()));
    };
    options.warn = [this](const std::string& warning) { warnings_.push_back(warning); };
    options.report_cut = [this](const CutReport& report) { cuts_.push_back(report); };
    engine_ = TransferEngine::Create(std::move(options));
    WEIR_EXPECT_OK(engine_->OnView(view_.MakeShared()));
    if (worker != 0) engine_->Adopt(view_.attempt);
  }

  void NextView() {
    ++view_.version;
    WEIR_EXPECT_OK(engine_->OnView(view_.MakeShared()));
  }

  // Pulls variable by variable into vectors of the declared sizes.
  std::shared_ptr<Result> Pull(std::vector<std::vector<float>>& into,
                               absl::Duration timeout = absl::Seconds(10)) {
    std::vector<PullItem> items;
    into.resize(view_.declaration.variables.size());
    for (size_t v = 0; v < into.size(); ++v) {
      into[v].assign(view_.declaration.variables[v].elements(), -1);
      items.push_back({v, into[v].data(), into[v].size() * sizeof(float)});
    }
    auto result = std::make_shared<Result>();
    PullOptions options;
    options.timeout = timeout;
    engine_->StartPull(items, options,
                       [result](absl::StatusOr<TransferResult> r) { *result = std::move(r); });
    return result;
  }

  std::vector<PushItem> Items(const std::vector<std::vector<float>>& values) {
    std::vector<PushItem> items;
    for (size_t v = 0; v < values.size(); ++v) {
      items.push_back({v, values[v].data(), values[v].size() * sizeof(float)});
    }
    return items;
  }

  std::shared_ptr<Result> Push(absl::Span<const PushItem> items,
                               absl::Span<const PullItem> into = {},
                               absl::Duration timeout = absl::Seconds(10)) {
    auto result = std::make_shared<Result>();
    PushOptions options;
    options.step = step_++;
    options.consumed = 32 * step_;
    options.timeout = timeout;
    engine_->StartPush(items, into, options,
                       [result](absl::StatusOr<TransferResult> r) { *result = std::move(r); });
    return result;
  }

  ScriptedServer& server(const std::string& name) { return *servers_.at(name); }

  FakeClock clock_;
  ManualExecutor executor_{clock_};
  HandMadeView view_;
  std::map<std::string, std::shared_ptr<ScriptedServer>> servers_;
  std::vector<CutReport> cuts_;
  std::vector<std::string> warnings_;
  std::shared_ptr<TransferEngine> engine_;
  uint64_t step_ = 0;
};

}  // namespace weir
