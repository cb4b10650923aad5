// SPDX-License-Identifier: Apache-2.0
// What a cluster tells about itself: how far a job is, pushes that are torn over its servers, who
// is left of a job.
#include <gmock/gmock.h>

#include <array>
#include <memory>
#include <thread>
#include <vector>

#include "common/status_macros.h"
#include "rpc/channels.h"
#include "rpc/coordinator_client.h"
#include "rpc/remote_endpoint.h"
#include "tests/support/call_and_wait.h"
#include "tests/support/client_values.h"
#include "tests/support/eventually.h"
#include "tests/support/hand_made_view.h"
#include "tests/support/mini_cluster.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"
#include "weir/job.h"
#include "weir/v1/job_spec.pb.h"

namespace weir {
namespace {

using ::testing::Each;
using ::testing::SizeIs;

class ClusterReport : public ::testing::Test {
 protected:
  ClusterReport() {
    MiniCluster::Options options;
    options.folder = folder_.path();
    auto cluster = MiniCluster::Start(options);
    EXPECT_THAT(cluster, IsOk());
    cluster_ = *std::move(cluster);
    auto client =
        CoordinatorClient::Create({.address = cluster_->coordinator(), .clock = &Clock::Real()});
    EXPECT_THAT(client, IsOk());
    coordinator_ = *std::move(client);
  }

  // Two workers of a job that runs, its two variables on a server each.
  void StartJob(v1::JobSpec spec = {}) {
    spec.set_name("job");
    spec.set_workers(2);
    spec.mutable_regime()->set_kind(v1::REGIME_ASYNC);
    JoinOptions options;
    options.coordinator = cluster_->coordinator();
    options.timeout = absl::Seconds(20);
    options.serialized_spec = spec.SerializeAsString();
    for (Job& job : jobs_) {
      WEIR_ASSERT_OK_AND_ASSIGN(job, JoinJob(options));
    }
    WEIR_ASSERT_OK(jobs_[0].session->Declare(declaration_));
    Initialise();
  }

  // The first worker does.
  void Initialise() {
    WEIR_ASSERT_OK(jobs_[0].session->WaitUntilReady(absl::Seconds(30)).status());
    WEIR_ASSERT_OK(jobs_[0].parameters->Assign(PushItems(Filled(declaration_, 0))));
    WEIR_ASSERT_OK(jobs_[0].session->ReportInitialised());
    for (Job& job : jobs_) {
      WEIR_ASSERT_OK(job.session->WaitUntilReady(absl::Seconds(30)).status());
    }
  }

  v1::JobStatus ShowJob() {
    v1::ShowJobRequest request;
    request.set_job("job");
    const auto reply = coordinator_->Call(&CoordinatorStub::ShowJob, request,
                                          Clock::Real().Now() + absl::Seconds(20));
    EXPECT_THAT(reply, IsOk());
    return reply.ok() ? reply->job() : v1::JobStatus();
  }

  // The second worker's first push, of ones, as far as it goes to the server of variable 0.
  absl::Status PushToOneServer() {
    const v1::JobView view = ShowJob().view();
    const v1::ShardMap& map = view.shard_map();
    const v1::ServerInfo& server = map.servers(static_cast<int>(map.server_of_shard(0)));
    v1::PushRequest request;
    v1::RequestContext& context = *request.mutable_context();
    context.set_run_id(view.run_id());
    context.set_attempt(view.attempt());
    context.set_generation(view.generation());
    context.set_shard_map_version(map.version());
    context.set_worker(view.members(1).worker());
    context.set_server_incarnation(server.incarnation());
    request.set_group(1);
    request.set_sequence(1);
    request.set_weight(1);
    request.set_examples(1);
    request.add_segments()->set_count(30000);
    Payload payload;
    payload.Append(ones_.data(), ones_.size() * sizeof(float));
    WEIR_ASSIGN_OR_RETURN(const auto channel, Dial(server.address()));
    RemoteEndpoint endpoint(channel, {.address = server.address(), .clock = &Clock::Real()});
    return CallAndWait<v1::PushReply>([&](auto done) {
             endpoint.Push(request, std::move(payload), Clock::Real().Now() + absl::Seconds(20),
                           std::move(done));
           })
        .status();
  }

  TempFolder folder_;
  const Declaration declaration_ = SgdOver({30000, 20000});
  const std::vector<float> ones_ = std::vector<float>(30000, 1);
  std::unique_ptr<MiniCluster> cluster_;
  std::unique_ptr<CoordinatorClient> coordinator_;
  std::array<Job, 2> jobs_;
};

// That the first worker has made steps 0 to 4 of the new attempt, heartbeats alone tell.
TEST_F(ClusterReport, AfterARollbackTheStepIsThatOfTheNewAttempt) {
  StartJob();
  Progress progress;
  progress.step = 1000;
  jobs_[0].session->ReportProgress(progress);
  EXPECT_TRUE(Eventually([&] { return ShowJob().step() == 1000; }));
  WEIR_ASSERT_OK(cluster_->RestartServer(0));
  for (Job& job : jobs_) {
    WEIR_ASSERT_OK(job.session->WaitForOtherAttempt(1, absl::Seconds(30)));
  }
  Initialise();
  EXPECT_EQ(ShowJob().step(), 0u);
  progress.step = 1;
  jobs_[0].session->ReportProgress(progress);
  const Values ones = Filled(declaration_, 1);
  for (uint64_t step = 0; step < 5; ++step) {
    WEIR_ASSERT_OK(jobs_[0].parameters->Push(PushItems(ones), AtStep(step)));
  }
  EXPECT_TRUE(Eventually([&] { return ShowJob().step() == 5; })) << ShowJob().step();
}

TEST_F(ClusterReport, APushThatReachedOneServerOfTwoIsTornWhenItsWorkerIsGone) {
  StartJob();
  WEIR_ASSERT_OK(PushToOneServer());
  EXPECT_EQ(ShowJob().torn_pushes(), 0u);
  WEIR_ASSERT_OK(jobs_[1].session->Leave(/*finished=*/false, "the test says so"));
  EXPECT_TRUE(Eventually([&] { return ShowJob().torn_pushes() == 1; }));
  // As protocol and documents say: it counts where it came to.
  const Values values = PullAll(*jobs_[0].parameters, declaration_);
  EXPECT_THAT(values[0], Each(-1));
  EXPECT_THAT(values[1], Each(0));
  WEIR_ASSERT_OK(jobs_[0].session->Leave(/*finished=*/true, ""));
  EXPECT_EQ(ShowJob().view().state(), v1::JOB_STATE_FINISHED);
  EXPECT_EQ(ShowJob().torn_pushes(), 1u);
}

// It is interrupted before it has reported anything.
TEST_F(ClusterReport, WhatALeaverHasPushedIsNotHandedOutAgain) {
  v1::JobSpec spec;
  spec.set_train_examples(1000);
  spec.mutable_data()->mutable_batch()->set_global(20);
  spec.mutable_length()->set_epochs(1);
  StartJob(spec);
  WEIR_ASSERT_OK_AND_ASSIGN(const TakenRanges held,
                            jobs_[0].session->TakeRanges(100, absl::Seconds(60)));
  ASSERT_THAT(held.ranges, SizeIs(1));
  PushOptions options = AtStep(0);
  options.examples = options.consumed = 10;
  WEIR_ASSERT_OK(jobs_[0].parameters->Push(PushItems(Filled(declaration_, 1)), options));
  WEIR_ASSERT_OK(jobs_[0].session->Leave(/*finished=*/false, "interrupted"));
  EXPECT_EQ(ShowJob().examples(), 10u);
  WEIR_ASSERT_OK_AND_ASSIGN(const TakenRanges rest,
                            jobs_[1].session->TakeRanges(100, absl::Seconds(60)));
  ASSERT_FALSE(rest.ranges.empty());
  EXPECT_EQ(rest.ranges[0].first, held.ranges[0].first + 10);
}

// Each sees the other in its view.
TEST_F(ClusterReport, OfTwoThatLeaveToOthersAtOnceOneStaysAndKnowsThatItIsAlone) {
  StartJob();
  std::array<absl::StatusOr<bool>, 2> left;
  std::thread other([&] { left[1] = jobs_[1].session->LeaveToOthers("its source has ended"); });
  left[0] = jobs_[0].session->LeaveToOthers("its source has ended");
  other.join();
  for (size_t i = 0; i < 2; ++i) {
    WEIR_ASSERT_OK(left[i]);
    EXPECT_EQ(jobs_[i].session->Info().member, !*left[i]);
  }
  ASSERT_NE(*left[0], *left[1]);
  JobSession& last = *jobs_[*left[0] ? 1 : 0].session;
  EXPECT_THAT(last.Info().members, SizeIs(1));
  WEIR_ASSERT_OK(last.Leave(/*finished=*/true, ""));
  EXPECT_EQ(ShowJob().view().state(), v1::JOB_STATE_FINISHED);
}

// The dead one's lease has 2 s to go.
TEST_F(ClusterReport, NobodyLeavesAJobToAWorkerThatIsDead) {
  StartJob();
  // Its heartbeats end, and nobody is told.
  jobs_[0].parameters.reset();
  jobs_[0].session.reset();
  WEIR_ASSERT_OK_AND_ASSIGN(const bool left,
                            jobs_[1].session->LeaveToOthers("its source has ended"));
  EXPECT_FALSE(left);
  EXPECT_THAT(jobs_[1].session->Info().members, SizeIs(1));
  WEIR_ASSERT_OK(jobs_[1].session->Leave(/*finished=*/true, ""));
  EXPECT_EQ(ShowJob().view().state(), v1::JOB_STATE_FINISHED);
}

}  // namespace
}  // namespace weir
