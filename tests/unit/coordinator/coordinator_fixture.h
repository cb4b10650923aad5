// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "checkpoint/manifest_store.h"
#include "coordinator/coordinator.h"
#include "tests/support/fake_file_system.h"
#include "tests/support/manual_executor.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/coordinator/fakes.h"

namespace weir {

inline constexpr absl::Duration kLease = absl::Seconds(10);
inline constexpr absl::Duration kTick = absl::Milliseconds(100);

// The answer to a call that may be parked.
template <typename Reply>
using Pending = std::shared_ptr<absl::optional<absl::StatusOr<Reply>>>;

// A coordinator under a fake clock, with fake servers, on one thread.
class CoordinatorTest : public ::testing::Test {
 protected:
  CoordinatorTest() { Boot(); }

  // Starts the coordinator, or starts it again as after kill -9: only what was kept remains.
  void Boot();
  // A call whose answer is expected at once.
  template <typename Reply, typename Request>
  absl::StatusOr<Reply> Call(void (Coordinator::*method)(const Request&, Coordinator::Done<Reply>),
                             const Request& request) {
    const Pending<Reply> pending = Start<Reply>([&](Coordinator::Done<Reply> done) {
      ((*coordinator_).*method)(request, std::move(done));
    });
    if (!pending->has_value()) return absl::InternalError("not answered");
    return **pending;
  }
  template <typename Reply>
  Pending<Reply> Start(const std::function<void(Coordinator::Done<Reply>)>& call) {
    auto pending = std::make_shared<absl::optional<absl::StatusOr<Reply>>>();
    call([pending](absl::StatusOr<Reply> reply) { *pending = std::move(reply); });
    executor_.RunAll();
    return pending;
  }

  absl::Status AddServer(const std::string& name, uint64_t incarnation, uint64_t limit = 0);
  absl::StatusOr<v1::RegisterReply> Join(uint64_t worker, const v1::JobSpec& spec,
                                         int32_t rank = -1);
  // `attempt`: the one that the worker knows of.
  absl::Status Beat(uint64_t worker, uint64_t step = 0, uint64_t attempt = 1);
  absl::Status BeatServer(uint64_t incarnation, const v1::ServerReport& report = {});
  absl::Status Declare(uint64_t worker, const v1::Declaration& declaration);
  absl::Status ReportInitialised(uint64_t worker);
  absl::Status Report(uint64_t worker, uint64_t step, uint64_t examples);
  absl::Status Leave(uint64_t worker, bool finished, const std::string& reason = "");
  absl::StatusOr<v1::LeaveReply> LeaveUnlessLast(uint64_t worker);
  absl::Status Mark(uint64_t worker, uint64_t consumed = 0);
  Pending<v1::BarrierReply> Enter(uint64_t worker, const std::string& name, double value,
                                  absl::Duration timeout = absl::Minutes(1), uint64_t step = 0);
  Pending<v1::SaveCheckpointReply> Save(absl::Duration timeout = absl::Minutes(1));
  // A checkpoint of a running sync job at `step`, with 10 examples a step unless told otherwise.
  std::string SaveAt(uint64_t step) { return SaveAt(step, 10 * step); }
  std::string SaveAt(uint64_t step, uint64_t examples);
  // Its parts cannot be restored any more.
  void Damage(const std::string& checkpoint);
  // The coordinator dies at its next change, which server-0 has in force and server-1 not.
  void DieBetweenCommits();
  // Newest first.
  std::vector<v1::Manifest> Checkpoints(const std::string& job = "job");
  absl::Status Stop(const std::string& job = "job");
  absl::StatusOr<v1::TakeRangesReply> Take(uint64_t worker, uint64_t request, uint64_t examples,
                                           uint64_t consumed = 0);
  // The newest view of a job, as its watchers have it.
  v1::JobView View(const std::string& job = "job");
  // Moves time while these workers and servers send heartbeats each second.
  void Pass(absl::Duration duration, const std::vector<uint64_t>& workers,
            const std::vector<uint64_t>& servers);
  // Two servers, `workers` of a job that runs.
  void RunJob(const v1::JobSpec& spec, const std::vector<uint64_t>& workers);

  static v1::JobSpec SyncJob(uint32_t workers);
  static v1::JobSpec AsyncJob(uint32_t workers);
  static v1::Declaration OneVariable(uint64_t elements = 1 << 20);

  FakeClock clock_;
  ManualExecutor executor_{clock_};
  MemoryStateStore store_;
  FakeFileSystem files_;
  std::unique_ptr<ManifestStore> manifests_;
  FakeServers servers_{executor_};
  std::shared_ptr<Coordinator> coordinator_;
  std::map<std::string, uint64_t> runs_;  // by job, of Join
  std::map<uint64_t, uint64_t> run_of_;   // by worker
  uint64_t last_random_ = 100;
};

}  // namespace weir
