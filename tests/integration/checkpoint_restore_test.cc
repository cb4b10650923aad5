// SPDX-License-Identifier: Apache-2.0
// A job that is restored goes on as if it had not been interrupted.
#include "tests/integration/checkpoint_fixture.h"
#include "tests/support/fake_file_system.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

v1::Optimizer OptimizerNamed(const std::string& name) {
  v1::Optimizer optimizer;
  optimizer.mutable_learning_rate()->set_base(0.05);
  optimizer.mutable_learning_rate()->set_warm_up_examples(96);
  optimizer.mutable_learning_rate()->mutable_cosine()->set_total_examples(1000);
  if (name == "Sgd") {
    optimizer.mutable_sgd()->set_weight_decay(0.01);
  } else if (name == "Momentum") {
    optimizer.mutable_sgd()->set_momentum(0.9);
    optimizer.mutable_sgd()->set_nesterov(true);
  } else if (name == "Adagrad") {
    optimizer.mutable_adagrad()->set_initial_accumulator_value(0.1);
    optimizer.mutable_adagrad()->set_eps(1e-10);
  } else if (name == "RmsProp") {
    optimizer.mutable_rmsprop()->set_alpha(0.99);
    optimizer.mutable_rmsprop()->set_eps(1e-8);
    optimizer.mutable_rmsprop()->set_momentum(0.5);
    optimizer.mutable_rmsprop()->set_centered(true);
  } else {
    v1::Adam& adam = name == "AdamW" ? *optimizer.mutable_adamw() : *optimizer.mutable_adam();
    adam.set_beta1(0.9);
    adam.set_beta2(0.999);
    adam.set_eps(1e-8);
    adam.set_weight_decay(0.01);
    adam.set_amsgrad(name == "AmsGrad");
  }
  return optimizer;
}

using Case = std::tuple<std::string, v1::Regime>;

class EveryOptimizerTest : public CheckpointTest, public ::testing::WithParamInterface<Case> {
 protected:
  void SetUp() override { regime_ = std::get<1>(GetParam()); }
  const v1::Optimizer optimizer_ = OptimizerNamed(std::get<0>(GetParam()));
};

TEST_P(EveryOptimizerTest, SavedOnTwoServersGoesOnBitForBitOnOneTwoAndThree) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto job, Start(optimizer_, 2));
  for (uint64_t step = 0; step < 3; ++step) WEIR_ASSERT_OK(job->Train(step));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto parts, Save(*job, 3));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto at_the_cut, job->Pull());
  for (uint64_t step = 3; step < 6; ++step) WEIR_ASSERT_OK(job->Train(step));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto uninterrupted, job->Pull());
  ASSERT_NE(at_the_cut, uninterrupted);
  WEIR_ASSERT_OK_AND_ASSIGN(const auto saved, Records(parts));

  for (const int servers : {1, 2, 3}) {
    SCOPED_TRACE(servers);
    const auto resumed = Resume(optimizer_, servers, 3);
    WEIR_ASSERT_OK(Restore(*resumed, parts));
    WEIR_ASSERT_OK_AND_ASSIGN(const auto restored, resumed->Pull());
    EXPECT_EQ(restored, at_the_cut);  // weights and versions
    // Weights, slots, versions and examples, by what a second checkpoint holds.
    WEIR_ASSERT_OK_AND_ASSIGN(const auto again, Save(*resumed, 3));
    WEIR_ASSERT_OK_AND_ASSIGN(const auto saved_again, Records(again));
    EXPECT_EQ(saved_again, saved);
    for (const v1::CheckpointPart& part : again) {
      WEIR_ASSERT_OK(FileSystem::Real().RemoveTree(part.directory()));
    }
    for (uint64_t step = 3; step < 6; ++step) WEIR_ASSERT_OK(resumed->Train(step));
    WEIR_ASSERT_OK_AND_ASSIGN(const auto continued, resumed->Pull());
    EXPECT_EQ(continued, uninterrupted);
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryOptimizerTest,
                         ::testing::Combine(::testing::Values("Sgd", "Momentum", "Adagrad",
                                                              "RmsProp", "Adam", "AmsGrad",
                                                              "AdamW"),
                                            ::testing::Values(v1::REGIME_ASYNC, v1::REGIME_SYNC)),
                         [](const auto& info) {
                           return std::get<0>(info.param) +
                                  (std::get<1>(info.param) == v1::REGIME_SYNC ? "InSync"
                                                                              : "InAsync");
                         });

TEST_F(CheckpointTest, SlotsThatNoUpdateHasTouchedAreRestoredAsInitialValues) {
  const v1::Optimizer optimizer = OptimizerNamed("Adagrad");
  WEIR_ASSERT_OK_AND_ASSIGN(const auto job, Start(optimizer, 2));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto parts, Save(*job, 0));
  WEIR_ASSERT_OK(job->Train(0));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto uninterrupted, job->Pull());
  const auto resumed = Resume(optimizer, 3, 0);
  WEIR_ASSERT_OK(Restore(*resumed, parts));
  WEIR_ASSERT_OK(resumed->Train(0));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto continued, resumed->Pull());
  EXPECT_EQ(continued, uninterrupted);
}

TEST_F(CheckpointTest, PartsThatLieElsewhereComeFromTheServersThatHaveThem) {
  const v1::Optimizer optimizer = OptimizerNamed("Adam");
  WEIR_ASSERT_OK_AND_ASSIGN(const auto job, Start(optimizer, 2));
  WEIR_ASSERT_OK(job->Train(0));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto parts, Save(*job, 1));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto at_the_cut, job->Pull());
  // The writers see their folders; the machine that restores has an empty disk.
  PartFetcher first(FileSystem::Real(), {RootOf(*job, 0)});
  PartFetcher second(FileSystem::Real(), {RootOf(*job, 1)});
  peers_.Add("at server-0", first);
  peers_.Add("at server-1", second);
  FakeFileSystem empty;
  PartFetcher local(empty, {"/nothing"});

  CoreJob::Options options = JobOptions(optimizer, 3);
  const auto resumed = Resume(optimizer, 3, 1);
  WEIR_ASSERT_OK(resumed->Enter(v1::JOB_STATE_RESTORING));
  v1::RestoreRequest request = RestoreRequestOf(*resumed, parts);
  for (v1::CheckpointPart& part : *request.mutable_parts()) part.set_server("old-" + part.server());
  for (int i = 0; i < 3; ++i) WEIR_ASSERT_OK(RestoreOn(*resumed, i, request, local));
  WEIR_ASSERT_OK(resumed->Enter(v1::JOB_STATE_RUNNING));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto restored, resumed->Pull());
  EXPECT_EQ(restored, at_the_cut);
  EXPECT_GT(peers_.calls(), 0);
}

TEST_F(CheckpointTest, FoldersThatAreNotOursAreNotServed) {
  PartFetcher fetcher(FileSystem::Real(), {temp_ / "server-0"});
  v1::FetchPartRequest request;
  for (const std::string& folder :
       {std::string("/etc"), temp_ / "server-0/../server-1/job/00000001-1"}) {
    request.set_directory(folder);
    EXPECT_THAT(
        fetcher.Fetch(request, [](uint64_t, absl::string_view) { return absl::OkStatus(); }),
        HasStatus(absl::StatusCode::kPermissionDenied, HasSubstr(folder)));
  }
}

TEST_F(CheckpointTest, ARepeatedRestoreIsDoneOnce) {
  const v1::Optimizer optimizer = OptimizerNamed("Sgd");
  WEIR_ASSERT_OK_AND_ASSIGN(const auto job, Start(optimizer, 1));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto parts, Save(*job, 0));
  const auto resumed = Resume(optimizer, 1, 0);
  WEIR_ASSERT_OK(resumed->Enter(v1::JOB_STATE_RESTORING));
  PartFetcher local(FileSystem::Real(), {RootOf(*job, 0)});
  PartRestorer restorer({.local = &local,
                         .peers = &peers_,
                         .executor = &executor_,
                         .clock = &clock_,
                         .server = "server-0"});
  std::vector<absl::Status> answers;
  const auto restore = [&] {
    restorer.Restore(
        resumed->server(0), RestoreRequestOf(*resumed, parts), absl::InfiniteFuture(),
        [&](absl::StatusOr<v1::RestoreReply> reply) { answers.push_back(reply.status()); });
  };
  restore();
  restore();
  ASSERT_EQ(answers.size(), 1);
  EXPECT_THAT(answers[0], HasStatus(absl::StatusCode::kUnavailable, HasSubstr("being restored")));
  executor_.RunAll();
  ASSERT_EQ(answers.size(), 2);
  WEIR_EXPECT_OK(answers[1]);
  restore();
  ASSERT_EQ(answers.size(), 3);
  WEIR_EXPECT_OK(answers[2]);
}

}  // namespace
}  // namespace weir
