// SPDX-License-Identifier: Apache-2.0
// A job over server cores in one thread: the test is the coordinator, which makes the views, and
// the only worker. Nothing runs unless the test says so.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/parameter_server.h"
#include "sharding/layout.h"
#include "tests/support/manual_executor.h"
#include "weir/v1/view.pb.h"

namespace weir {

class CoreJob {
 public:
  struct Options {
    v1::Declaration declaration;
    v1::Regime regime = v1::REGIME_ASYNC;
    int servers = 1;
    uint64_t attempt = 1;
    uint64_t shard_bytes = 0;
    uint64_t chunk_bytes = 0;
    v1::ResumePoint resume;  // of attempts that start from a checkpoint
    FakeClock* clock = nullptr;
    ManualExecutor* executor = nullptr;
  };

  explicit CoreJob(Options options);

  ParameterServer& server(int i) { return *servers_[i]; }
  int num_servers() const { return static_cast<int>(servers_.size()); }
  std::string ServerName(int i) const { return "server-" + std::to_string(i); }
  const v1::JobView& view() const { return view_; }

  // A new view in this state, at every server.
  absl::Status Enter(v1::JobState state);
  // Initial values: an arithmetic progression for each variable.
  absl::Status Assign();
  // A push of each group, the state included, with gradients that depend on `step` alone.
  absl::Status Train(uint64_t step);
  // The bytes of every variable, by name.
  absl::StatusOr<std::map<std::string, std::string>> Pull();

  // What CommitStep or the workers' marks set: the cut that SavePart asks for.
  absl::StatusOr<v1::SavePartRequest> PrepareCut(uint64_t cut, uint64_t step,
                                                 const std::string& id);

  static constexpr uint64_t kRun = 0x1234567890;
  static constexpr uint64_t kWorker = 77;

 private:
  v1::RequestContext Context(int server) const;
  std::vector<const Shard*> ShardsOn(int server, uint32_t group) const;
  v1::DType DTypeOf(const Shard& shard) const;
  // `value` of each element of the shard, as the variable's dtype.
  std::string Values(const Shard& shard, double first, double step) const;
  template <typename Request>
  void AddSegments(const std::vector<const Shard*>& shards, Request& request) const;

  Options options_;
  std::vector<std::unique_ptr<ParameterServer>> servers_;
  v1::JobView view_;
  std::unique_ptr<Layout> layout_;
  std::map<uint32_t, uint64_t> sequences_;  // by group
};

// The declaration of a job with every kind of variable, all parameters under one optimizer.
v1::Declaration EveryKindOfVariable(const v1::Optimizer& optimizer);

}  // namespace weir
