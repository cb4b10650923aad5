// SPDX-License-Identifier: Apache-2.0
// Saving on some servers and restoring on others, over the servers' cores and real files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "checkpoint/part_reader.h"
#include "common/status_macros.h"
#include "server/part_fetcher.h"
#include "server/part_restorer.h"
#include "server/part_saver.h"
#include "tests/integration/core_job.h"
#include "tests/support/fake_file_system.h"
#include "tests/support/forwarding_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"

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

// Other servers of the test, as if they were on other machines.
class FakePartTransport final : public PartTransport {
 public:
  void Add(const std::string& address, PartFetcher& server) { servers_[address] = &server; }
  int calls() const { return calls_; }

  absl::Status Fetch(const std::string& address, const v1::FetchPartRequest& request, absl::Time,
                     PartReader::Consume consume) override {
    ++calls_;
    const auto server = servers_.find(address);
    if (server == servers_.end()) return absl::UnavailableError(absl::StrCat("no ", address));
    return server->second->Fetch(request, consume);
  }

 private:
  std::map<std::string, PartFetcher*> servers_;
  int calls_ = 0;
};

// No test here ends with a power failure.
class UnsyncedFiles final : public ForwardingFileSystem {
 public:
  absl::Status SyncFile(const std::string&) override { return absl::OkStatus(); }
  absl::Status SyncFolder(const std::string&) override { return absl::OkStatus(); }
};

class CheckpointTest : public ::testing::Test {
 protected:
  CoreJob::Options JobOptions(const v1::Optimizer& optimizer, int servers) {
    CoreJob::Options options;
    options.declaration = EveryKindOfVariable(optimizer);
    options.regime = regime_;
    options.servers = servers;
    // 57 x 100 f32 are three shards of at most two chunks.
    options.shard_bytes = 8192;
    options.chunk_bytes = 4096;
    options.clock = &clock_;
    options.executor = &executor_;
    return options;
  }

  std::string RootOf(const CoreJob& job, int server) {
    return temp_ / absl::StrCat("attempt-", job.view().attempt(), "/", job.ServerName(server));
  }

  absl::StatusOr<std::unique_ptr<CoreJob>> Start(const v1::Optimizer& optimizer, int servers) {
    auto job = std::make_unique<CoreJob>(JobOptions(optimizer, servers));
    WEIR_RETURN_IF_ERROR(job->Enter(v1::JOB_STATE_INITIALISING));
    WEIR_RETURN_IF_ERROR(job->Assign());
    WEIR_RETURN_IF_ERROR(job->Enter(v1::JOB_STATE_RUNNING));
    return job;
  }

  // All parts of a checkpoint whose first step to come is `step`.
  absl::StatusOr<std::vector<v1::CheckpointPart>> Save(CoreJob& job, uint64_t step) {
    WEIR_ASSIGN_OR_RETURN(const v1::SavePartRequest request, job.PrepareCut(7, step, kId));
    std::vector<v1::CheckpointPart> parts;
    for (int i = 0; i < job.num_servers(); ++i) {
      PartSaver saver({.files = &files_,
                       .executor = &executor_,
                       .clock = &clock_,
                       .root = RootOf(job, i),
                       .server = job.ServerName(i),
                       .slice_bytes = 5000});
      absl::StatusOr<v1::SavePartReply> reply = absl::InternalError("not answered");
      saver.Save(job.server(i), request, absl::InfiniteFuture(),
                 [&](absl::StatusOr<v1::SavePartReply> got) { reply = std::move(got); });
      executor_.Advance(absl::Seconds(5));
      if (!reply.ok()) return reply.status();
      parts.push_back(reply->part());
    }
    return parts;
  }

  // What all parts hold, by key: "shard/chunk".
  absl::StatusOr<std::map<std::string, std::string>> Records(
      const std::vector<v1::CheckpointPart>& parts) {
    std::map<std::string, std::string> records;
    for (const v1::CheckpointPart& part : parts) {
      WEIR_ASSIGN_OR_RETURN(const auto reader,
                            PartReader::Open(FileSystem::Real(), part.directory(), part.files()));
      for (int i = 0; i < part.shards_size(); ++i) {
        WEIR_RETURN_IF_ERROR(reader->ReadShard(
            part.ids(0), ShardId{part.shards(i)}, [&](uint64_t chunk, absl::string_view record) {
              records[absl::StrCat(part.shards(i), "/", chunk)] = std::string(record);
              return absl::OkStatus();
            }));
      }
    }
    return records;
  }

  // A later attempt on other servers, not yet restored.
  std::unique_ptr<CoreJob> Resume(const v1::Optimizer& optimizer, int servers, uint64_t step) {
    CoreJob::Options options = JobOptions(optimizer, servers);
    options.attempt = 2;
    options.resume.set_checkpoint_id(kId);
    options.resume.set_step(step);
    options.resume.set_examples(32 * step);
    options.resume.add_group_steps(step);
    options.resume.add_group_steps(step);
    return std::make_unique<CoreJob>(options);
  }

  v1::RestoreRequest RestoreRequestOf(const CoreJob& job,
                                      const std::vector<v1::CheckpointPart>& parts) {
    v1::RestoreRequest request;
    request.set_term(1);
    *request.mutable_view() = job.view();
    request.set_checkpoint_id(kId);
    *request.mutable_layout() = job.view().shard_map();
    for (const v1::CheckpointPart& part : parts) {
      *request.add_parts() = part;
      request.add_fetch_addresses("at " + part.server());
    }
    return request;
  }

  absl::Status RestoreOn(CoreJob& job, int server, const v1::RestoreRequest& request,
                         PartFetcher& local) {
    PartRestorer restorer({.local = &local,
                           .peers = &peers_,
                           .executor = &executor_,
                           .clock = &clock_,
                           .server = job.ServerName(server)});
    std::optional<absl::Status> status;
    restorer.Restore(job.server(server), request, absl::InfiniteFuture(),
                     [&](absl::StatusOr<v1::RestoreReply> reply) { status = reply.status(); });
    executor_.RunAll();
    return status.value_or(absl::InternalError("not answered"));
  }

  absl::Status Restore(CoreJob& job, const std::vector<v1::CheckpointPart>& parts) {
    WEIR_RETURN_IF_ERROR(job.Enter(v1::JOB_STATE_RESTORING));
    for (int i = 0; i < job.num_servers(); ++i) {
      PartFetcher local(FileSystem::Real(), {RootOf(job, i)});
      WEIR_RETURN_IF_ERROR(RestoreOn(job, i, RestoreRequestOf(job, parts), local));
    }
    return job.Enter(v1::JOB_STATE_RUNNING);
  }

  static constexpr char kId[] = "00000001-1";
  v1::Regime regime_ = v1::REGIME_ASYNC;
  FakeClock clock_;
  ManualExecutor executor_{clock_};
  TempFolder temp_;
  UnsyncedFiles files_;
  FakePartTransport peers_;
};

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

// Whatever is wrong with a checkpoint: it is named, and nothing of it is served.
class DamageTest : public CheckpointTest {
 protected:
  void SetUp() override {
    WEIR_ASSERT_OK_AND_ASSIGN(job_, Start(optimizer_, 2));
    WEIR_ASSERT_OK(job_->Train(0));
    WEIR_ASSERT_OK_AND_ASSIGN(parts_, Save(*job_, 1));
    resumed_ = Resume(optimizer_, 1, 1);
    WEIR_ASSERT_OK(resumed_->Enter(v1::JOB_STATE_RESTORING));
  }

  absl::Status RestoreAndCheckNothingIsServed(const v1::RestoreRequest& request) {
    PartFetcher local(FileSystem::Real(), {temp_.path()});
    const absl::Status status = RestoreOn(*resumed_, 0, request, local);
    EXPECT_FALSE(status.ok());
    EXPECT_FALSE(resumed_->Pull().ok());
    return status;
  }

  const v1::Optimizer optimizer_ = OptimizerNamed("Momentum");
  std::unique_ptr<CoreJob> job_;
  std::vector<v1::CheckpointPart> parts_;
  std::unique_ptr<CoreJob> resumed_;
};

TEST_F(DamageTest, AFlippedBitInTheLastPartIsFoundAndTheFileIsNamed) {
  for (const v1::PartFile& file : parts_[1].files()) {
    if (file.name().find(".sst") == std::string::npos) continue;
    const std::string path = parts_[1].directory() + "/" + file.name();
    WEIR_ASSERT_OK_AND_ASSIGN(std::string bytes, FileSystem::Real().ReadFile(path, 1 << 30));
    bytes[bytes.size() / 2] ^= 4;
    WEIR_ASSERT_OK(FileSystem::Real().WriteFile(path, bytes));
    EXPECT_THAT(
        RestoreAndCheckNothingIsServed(RestoreRequestOf(*resumed_, parts_)),
        HasStatus(absl::StatusCode::kDataLoss, AllOf(HasSubstr(path), HasSubstr("shard "))));
  }
}

TEST_F(DamageTest, AMissingPartOfARunningServerIsNamed) {
  WEIR_ASSERT_OK(FileSystem::Real().RemoveTree(parts_[0].directory()));
  EXPECT_THAT(RestoreAndCheckNothingIsServed(RestoreRequestOf(*resumed_, parts_)),
              HasStatus(absl::StatusCode::kDataLoss, HasSubstr(parts_[0].directory())));
}

TEST_F(DamageTest, APartWhoseServerIsAwayIsAskedForAgain) {
  WEIR_ASSERT_OK(FileSystem::Real().RemoveTree(parts_[1].directory()));
  v1::RestoreRequest request = RestoreRequestOf(*resumed_, parts_);
  request.set_fetch_addresses(1, "");
  EXPECT_THAT(RestoreAndCheckNothingIsServed(request),
              HasStatus(absl::StatusCode::kUnavailable, HasSubstr("server-1")));
}

TEST_F(DamageTest, AShardThatNoPartHasIsNamed) {
  v1::RestoreRequest request = RestoreRequestOf(*resumed_, parts_);
  request.mutable_parts()->RemoveLast();
  EXPECT_THAT(RestoreAndCheckNothingIsServed(request),
              HasStatus(absl::StatusCode::kDataLoss, HasSubstr("no part")));
}

TEST_F(DamageTest, AShardThatAPartListsAndDoesNotHoldIsNamed) {
  v1::RestoreRequest request = RestoreRequestOf(*resumed_, parts_);
  request.mutable_parts(0)->set_ids(0, "00000009-9");
  EXPECT_THAT(RestoreAndCheckNothingIsServed(request),
              HasStatus(absl::StatusCode::kDataLoss, HasSubstr("has 0 chunks")));
}

TEST_F(DamageTest, OtherShardsThanThoseSavedAreRefused) {
  v1::RestoreRequest request = RestoreRequestOf(*resumed_, parts_);
  request.mutable_layout()->set_shard_bytes(4096);
  EXPECT_THAT(RestoreAndCheckNothingIsServed(request),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("4096")));
}

TEST_F(DamageTest, AfterAFailureTheSameRestoreMayBeTriedAgain) {
  v1::RestoreRequest without = RestoreRequestOf(*resumed_, parts_);
  without.mutable_parts()->RemoveLast();
  EXPECT_FALSE(RestoreAndCheckNothingIsServed(without).ok());
  WEIR_EXPECT_OK(Restore(*resumed_, parts_));
  WEIR_EXPECT_OK(resumed_->Pull().status());
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
