// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/fault_test.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/support/eventually.h"

namespace weir {

void FaultTest::StartCluster(const ClusterOptions& options) {
  const std::string lease = absl::StrCat(absl::ToInt64Milliseconds(options.lease));
  WEIR_ASSERT_OK_AND_ASSIGN(
      cluster_,
      ProcessCluster::Start({.servers = options.servers,
                             .folder = folder_,
                             .coordinator_flags = {"--lease-ms", lease, "--heartbeat-ms", "200"},
                             .server_flags = options.server_flags}));
  WEIR_ASSERT_OK_AND_ASSIGN(
      coordinator_,
      CoordinatorClient::Create({.address = cluster_->coordinator(), .clock = &Clock::Real()}));
}

void FaultTest::StartWorker(const std::string& name, std::vector<std::string> flags) {
  flags.insert(flags.end(), {"--coordinator", cluster_->coordinator()});
  WEIR_ASSERT_OK(cluster_->StartProgram(name, "counting-worker", flags));
}

void FaultTest::AwaitStep(const std::string& worker, uint64_t step) {
  uint64_t seen = 0;
  while (seen < step) {
    const auto line = cluster_->WaitForLine(worker, "step ", kSoon);
    WEIR_ASSERT_OK(line);
    const std::vector<std::string> words = absl::StrSplit(*line, ' ');
    if (words.size() != 4 || words[0] != "step" || words[2] != "weight") continue;
    ASSERT_TRUE(absl::SimpleAtoi(words[1], &seen));
  }
}

std::string FaultTest::AwaitFinish(const std::string& worker) {
  const auto line = cluster_->WaitForLine(worker, "finished ", 2 * kSoon);
  EXPECT_THAT(line, IsOk());
  const auto state = cluster_->WaitForExit(worker, kSoon);
  EXPECT_THAT(state, IsOk());
  if (state.ok()) {
    EXPECT_TRUE(state->ok()) << worker << ": " << state->ToString();
  }
  return line.ok() ? *line : "";
}

v1::JobStatus FaultTest::ShowJob(const std::string& job) {
  v1::ShowJobRequest request;
  request.set_job(job);
  auto reply = coordinator_->Call(&CoordinatorStub::ShowJob, request, Clock::Real().Now() + kSoon);
  EXPECT_THAT(reply, IsOk());
  return reply.ok() ? reply->job() : v1::JobStatus();
}

void FaultTest::AwaitView(const std::string& job,
                          const std::function<bool(const v1::JobView&)>& claim) {
  ASSERT_TRUE(Eventually([&] { return claim(ShowJob(job).view()); }, kSoon))
      << ShowJob(job).DebugString();
}

void FaultTest::BeginCheckpoint(const std::string& job) {
  begun_.push_back(std::async(std::launch::async, [this, job] {
    v1::SaveCheckpointRequest request;
    request.set_job(job);
    (void)coordinator_->CallOnce(&CoordinatorStub::SaveCheckpoint, request,
                                 Clock::Real().Now() + kSoon);
  }));
}

void FaultTest::AwaitParts(const std::string& job) {
  v1::SaveCheckpointRequest request;
  request.set_job(job);
  absl::Status waiting;
  ASSERT_TRUE(Eventually(
      [&] {
        waiting = coordinator_
                      ->CallOnce(&CoordinatorStub::SaveCheckpoint, request,
                                 Clock::Real().Now() + absl::Milliseconds(200))
                      .status();
        return absl::StrContains(waiting.message(), "waits for the parts of");
      },
      kSoon))
      << waiting;
}

std::vector<std::string> FaultTest::Checkpoints(const std::string& job) {
  v1::ListCheckpointsRequest request;
  request.set_job(job);
  auto reply =
      coordinator_->Call(&CoordinatorStub::ListCheckpoints, request, Clock::Real().Now() + kSoon);
  EXPECT_THAT(reply, IsOk());
  std::vector<std::string> ids;
  if (!reply.ok()) return ids;
  for (const v1::Manifest& manifest : reply->manifests()) ids.push_back(manifest.id());
  return ids;
}

v1::Manifest FaultTest::SaveCheckpoint(const std::string& job) {
  v1::SaveCheckpointRequest request;
  request.set_job(job);
  auto reply =
      coordinator_->Call(&CoordinatorStub::SaveCheckpoint, request, Clock::Real().Now() + kSoon);
  EXPECT_THAT(reply, IsOk());
  return reply.ok() ? reply->manifest() : v1::Manifest();
}

}  // namespace weir
