// SPDX-License-Identifier: Apache-2.0
// The client library against a coordinator and servers: joining, training, data, readers, outages.
#include <gmock/gmock.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "common/status_macros.h"
#include "rpc/errors.h"
#include "tests/support/client_values.h"
#include "tests/support/eventually.h"
#include "tests/support/hand_made_view.h"
#include "tests/support/mini_cluster.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"
#include "weir/job.h"
#include "weir/reader.h"
#include "weir/v1/job_spec.pb.h"

namespace weir {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class ClusterClient : public ::testing::Test {
 protected:
  ClusterClient() : declaration_(SgdOver({30000, 4})) {
    MiniCluster::Options options;
    options.folder = folder_.path();
    auto cluster = MiniCluster::Start(options);
    EXPECT_THAT(cluster, IsOk());
    cluster_ = *std::move(cluster);
    spec_.set_name("job");
    spec_.set_workers(1);
    spec_.mutable_regime()->set_kind(v1::REGIME_ASYNC);
  }

  absl::StatusOr<Job> Join() {
    JoinOptions options;
    options.coordinator = cluster_->coordinator();
    options.serialized_spec = spec_.SerializeAsString();
    options.timeout = absl::Seconds(20);
    return JoinJob(options);
  }

  // Declares, and assigns where it is this worker's turn. Any thread.
  absl::StatusOr<JobInfo> MakeReady(Job& job, float value = 0) {
    const absl::Status declared = job.session->Declare(declaration_);
    if (!declared.ok()) return declared;
    auto info = job.session->WaitUntilReady(absl::Seconds(30));
    if (!info.ok() || !info->initialiser) return info;
    absl::Status status = job.parameters->Assign(PushItems(Filled(value)));
    if (status.ok()) status = job.session->ReportInitialised();
    if (!status.ok()) return status;
    return job.session->WaitUntilReady(absl::Seconds(30));
  }

  // Several joined and ready workers.
  std::vector<Job> JoinAll(uint32_t workers, float value = 0) {
    spec_.set_workers(workers);
    std::vector<Job> jobs(workers);
    std::vector<std::thread> threads;
    for (Job& job : jobs) {
      auto joined = Join();
      EXPECT_THAT(joined, IsOk());
      job = *std::move(joined);
    }
    for (Job& job : jobs) {
      threads.emplace_back([&] { EXPECT_THAT(MakeReady(job, value), IsOk()); });
    }
    for (std::thread& thread : threads) thread.join();
    return jobs;
  }

  Values Filled(float value) const { return weir::Filled(declaration_, value); }

  absl::StatusOr<PushStats> PushOnes(Job& job, uint64_t step, Values* into = nullptr) {
    const Values ones = Filled(1);
    const PushOptions options = AtStep(step);
    if (into == nullptr) return job.parameters->Push(PushItems(ones), options);
    return job.parameters->PushPull(PushItems(ones), PullItems(*into), options);
  }

  TempFolder folder_;
  Declaration declaration_;
  v1::JobSpec spec_;
  std::unique_ptr<MiniCluster> cluster_;
};

TEST_F(ClusterClient, JobRunsFromJoinToTheEnd) {
  std::vector<Job> jobs = JoinAll(2);
  for (uint64_t step = 0; step < 5; ++step) {
    for (Job& job : jobs) WEIR_ASSERT_OK(PushOnes(job, step));
  }
  EXPECT_THAT(PullAll(*jobs[0].parameters, declaration_), Each(Each(-10)));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      const auto result = jobs[i].session->Barrier("end", {{"hits", 1.0 + static_cast<double>(i)}},
                                                   {absl::Seconds(30)});
      ASSERT_THAT(result, IsOk());
      EXPECT_EQ(result->members, 2u);
      EXPECT_EQ(result->sums.at("hits"), 3);
      EXPECT_THAT(jobs[i].session->Leave(true, ""), IsOk());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(
      Reader::Open({cluster_->coordinator(), "job", absl::Seconds(20)}),
      HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("job 'job' has finished")));
}

TEST_F(ClusterClient, SyncWorkersShareTheMeanAndOneThatLeavesFreesTheOther) {
  spec_.mutable_regime()->set_kind(v1::REGIME_SYNC);
  std::vector<Job> jobs = JoinAll(2, 10);
  std::thread other([&] {
    for (uint64_t step = 0; step < 3; ++step) {
      Values into = Filled(0);
      EXPECT_THAT(PushOnes(jobs[1], step, &into), IsOk());
    }
    EXPECT_THAT(jobs[1].session->Leave(true, "its data has ended"), IsOk());
  });
  Values into = Filled(0);
  for (uint64_t step = 0; step < 6; ++step) WEIR_ASSERT_OK(PushOnes(jobs[0], step, &into));
  other.join();
  EXPECT_THAT(into, Each(Each(4)));
}

// Two optimizers, each with its variables on a server of its own, of which the second steps only
// every fifth time: that server hears little of the steps.
class ClusterOfTwoOptimizers : public ClusterClient {
 protected:
  ClusterOfTwoOptimizers() {
    declaration_ = SgdOver({4, 4});
    declaration_.groups.push_back(declaration_.groups[0]);
    declaration_.groups[1].name = "seldom";
    declaration_.variables[1].group = 2;
    spec_.mutable_regime()->set_kind(v1::REGIME_SYNC);
    spec_.set_workers(2);
    spec_.set_min_workers(1);
  }

  // Group steps that lie before a step.
  static uint64_t OfFirst(uint64_t step) { return step; }
  static uint64_t OfSecond(uint64_t step) { return (step + 4) / 5; }

  absl::Status PushOnesTo(Job& job, uint32_t group, uint64_t step, Values& into) {
    const Values ones = Filled(1);
    PushOptions options;
    options.group = group;
    options.step = step;
    options.group_step = group == 1 ? OfFirst(step) : OfSecond(step);
    options.examples = 1;
    options.timeout = absl::Seconds(30);
    const size_t variable = group - 1;
    return job.parameters
        ->PushPull({PushItems(ones)[variable]}, {PullItems(into)[variable]}, options)
        .status();
  }
  absl::Status RunStep(Job& job, uint64_t step, Values& into) {
    absl::Status status = PushOnesTo(job, 1, step, into);
    if (status.ok() && step % 5 == 0) status = PushOnesTo(job, 2, step, into);
    return status;
  }
  static uint64_t FirstStepOf(const JobInfo& info) {
    for (const JobInfo::Member& member : info.members) {
      if (member.rank == info.rank) return member.first_step;
    }
    return 0;
  }
};

TEST_F(ClusterOfTwoOptimizers, AJoinerPullsWithoutWaitingForTheOneThatStepsSeldom) {
  WEIR_ASSERT_OK_AND_ASSIGN(Job first, Join());
  WEIR_ASSERT_OK_AND_ASSIGN(const JobInfo info, MakeReady(first));
  ASSERT_EQ(info.servers, 2u);
  std::atomic<uint64_t> steps = 0;
  std::atomic<uint64_t> end = UINT64_MAX;
  Values firsts = Filled(0);
  std::thread training([&] {
    absl::Status status;
    for (uint64_t step = 0; status.ok() && step < end; ++step, ++steps) {
      status = RunStep(first, step, firsts);
    }
    EXPECT_THAT(status, IsOk());
  });
  EXPECT_TRUE(Eventually([&] { return steps >= 3; }));
  const auto join = [&]() -> absl::Status {
    WEIR_ASSIGN_OR_RETURN(Job second, Join());
    WEIR_ASSIGN_OR_RETURN(const JobInfo joined, MakeReady(second));
    PullOptions options;
    options.step = FirstStepOf(joined);
    options.timeout = absl::Seconds(20);
    Values seconds = Filled(1);
    WEIR_ASSIGN_OR_RETURN(const PullStats pulled,
                          second.parameters->Pull(PullItems(seconds), options));
    EXPECT_THAT(pulled.group_steps, ElementsAre(0, OfFirst(options.step), OfSecond(options.step)));
    EXPECT_THAT(seconds[0], Each(-static_cast<float>(OfFirst(options.step))));
    EXPECT_THAT(seconds[1], Each(-static_cast<float>(OfSecond(options.step))));
    end = options.step + 12;
    for (uint64_t step = options.step; step < end; ++step) {
      WEIR_RETURN_IF_ERROR(RunStep(second, step, seconds));
    }
    EXPECT_THAT(seconds[1], Each(-static_cast<float>(OfSecond(end))));
    return absl::OkStatus();
  };
  const absl::Status joined = join();
  if (!joined.ok()) end = 0;
  training.join();
  WEIR_EXPECT_OK(joined);
}

// In the steps that it trains here it does not step the second optimizer any more.
TEST_F(ClusterOfTwoOptimizers, ACheckpointDoesNotWaitForTheOneThatStepsSeldom) {
  WEIR_ASSERT_OK_AND_ASSIGN(Job job, Join());
  WEIR_ASSERT_OK(MakeReady(job));
  std::atomic<bool> saved = false;
  std::thread training([&] {
    Values into = Filled(0);
    EXPECT_THAT(RunStep(job, 0, into), IsOk());
    absl::Status status;
    for (uint64_t step = 1; status.ok() && !saved; ++step) status = PushOnesTo(job, 1, step, into);
    EXPECT_THAT(status, IsOk());
  });
  const auto id = job.session->SaveCheckpoint({});
  saved = true;
  training.join();
  WEIR_EXPECT_OK(id);
}

TEST_F(ClusterClient, WorkerThatDiesInASyncStepFreesTheOtherWhenItsLeaseEnds) {
  spec_.mutable_regime()->set_kind(v1::REGIME_SYNC);
  std::vector<Job> jobs = JoinAll(2, 10);
  jobs.pop_back();  // its heartbeats end, and nobody is told
  Values into = Filled(0);
  WEIR_ASSERT_OK(PushOnes(jobs[0], 0, &into));
  EXPECT_THAT(into, Each(Each(9)));
}

// The first worker holds all of the data and pushes nothing.
TEST_F(ClusterClient, WhoFindsAllDataWithOthersIsToldSoInTime) {
  spec_.set_train_examples(1000);
  spec_.mutable_data()->mutable_batch()->set_global(20);
  spec_.mutable_length()->set_epochs(1);
  std::vector<Job> jobs = JoinAll(2);
  uint64_t taken = 0;
  while (taken < 1000) {
    WEIR_ASSERT_OK_AND_ASSIGN(const TakenRanges ranges,
                              jobs[0].session->TakeRanges(1000, absl::Seconds(60)));
    for (const DataRange& range : ranges.ranges) taken += range.end - range.first;
  }
  const absl::Time began = absl::Now();
  WEIR_ASSERT_OK_AND_ASSIGN(const TakenRanges none,
                            jobs[1].session->TakeRanges(100, absl::Seconds(1)));
  EXPECT_THAT(none.ranges, ::testing::IsEmpty());
  EXPECT_FALSE(none.end_of_data);
  EXPECT_GE(absl::Now() - began, absl::Milliseconds(700)) << "it asks again until then";
}

TEST_F(ClusterClient, EveryPositionOfTheDataIsHandedOutOnce) {
  spec_.set_train_examples(1000);
  spec_.mutable_data()->mutable_batch()->set_global(20);
  spec_.mutable_length()->set_epochs(2);
  std::vector<Job> jobs = JoinAll(2);
  std::vector<std::map<uint64_t, int>> seen(2);  // by epoch and position
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      uint64_t step = 0;
      uint64_t consumed = 0;
      while (true) {
        const auto taken = jobs[i].session->TakeRanges(100, absl::Seconds(60));
        ASSERT_THAT(taken, IsOk());
        if (taken->end_of_data) return;
        for (const DataRange& range : taken->ranges) {
          for (uint64_t p = range.first; p < range.end; ++p) ++seen[i][range.epoch * 1000 + p];
          consumed += range.end - range.first;
        }
        const Values ones = Filled(1);
        PushOptions options;
        options.step = options.group_step = step++;
        options.consumed = consumed;
        options.examples = 1;
        ASSERT_THAT(jobs[i].parameters->Push(PushItems(ones), options), IsOk());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& [position, count] : seen[1]) seen[0][position] += count;
  EXPECT_THAT(seen[0], SizeIs(2000));
  for (const auto& [position, count] : seen[0]) EXPECT_EQ(count, 1) << position;
}

TEST_F(ClusterClient, RestartedServerRollsTheJobBackToItsCheckpoint) {
  std::vector<Job> jobs = JoinAll(2);
  for (uint64_t step = 0; step < 3; ++step) {
    for (Job& job : jobs) WEIR_ASSERT_OK(PushOnes(job, step));
  }
  WEIR_ASSERT_OK_AND_ASSIGN(const std::string id, jobs[0].session->SaveCheckpoint({{"loss", 1}}));
  for (Job& job : jobs) WEIR_ASSERT_OK(PushOnes(job, 3));  // lost
  WEIR_ASSERT_OK(cluster_->RestartServer(1));
  for (Job& job : jobs) {
    absl::Status status;
    for (uint64_t step = 4; status.ok() && step < 2000; ++step)
      status = PushOnes(job, step).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
    WEIR_ASSERT_OK_AND_ASSIGN(const JobInfo info, job.session->WaitUntilReady(absl::Seconds(30)));
    EXPECT_EQ(info.checkpoint_id, id);
    EXPECT_EQ(info.attempt, 2u);
  }
  EXPECT_THAT(PullAll(*jobs[0].parameters, declaration_), Each(Each(-6)));
  for (Job& job : jobs) WEIR_ASSERT_OK(PushOnes(job, 3));
  EXPECT_THAT(PullAll(*jobs[0].parameters, declaration_), Each(Each(-8)));
}

TEST_F(ClusterClient, TrainingGoesOnWhileTheCoordinatorIsRestarted) {
  std::vector<Job> jobs = JoinAll(1);
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> pushes = 0;
  std::thread training([&] {
    for (uint64_t step = 0; !stop; ++step) {
      ASSERT_THAT(PushOnes(jobs[0], step), IsOk());
      ++pushes;
    }
  });
  WEIR_EXPECT_OK(cluster_->RestartCoordinator());
  const uint64_t before = pushes;
  EXPECT_TRUE(Eventually([&] { return pushes >= before + 20; }));
  EXPECT_THAT(jobs[0].session->Barrier("after", {}, {absl::Seconds(30)}), IsOk());
  stop = true;
  training.join();
}

TEST_F(ClusterClient, ReaderReadsByNameAndNeverCounts) {
  spec_.mutable_regime()->set_kind(v1::REGIME_SYNC);
  std::vector<Job> jobs = JoinAll(1, 3);
  WEIR_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Reader> reader,
                            Reader::Open({cluster_->coordinator(), "job", absl::Seconds(20)}));
  EXPECT_THAT(reader->Variables(), SizeIs(2));
  std::vector<float> values(4);
  const NamedBuffer buffer{"v1", values.data(), 16};
  WEIR_ASSERT_OK(reader->Pull({buffer}, {}));
  EXPECT_THAT(values, Each(3));
  WEIR_ASSERT_OK(PushOnes(jobs[0], 0));
  ReadOptions young;
  young.max_age = absl::Hours(1);
  WEIR_ASSERT_OK_AND_ASSIGN(const ReadStats kept, reader->Pull({buffer}, young));
  EXPECT_EQ(kept.bytes, 0u);
  EXPECT_THAT(values, Each(3));
  ReadOptions newer;
  newer.min_examples = 1;
  WEIR_ASSERT_OK_AND_ASSIGN(const ReadStats read, reader->Pull({buffer}, newer));
  EXPECT_EQ(read.examples, 1u);
  EXPECT_THAT(values, Each(2));
  newer.min_examples = 2;
  newer.timeout = absl::Milliseconds(200);
  EXPECT_THAT(reader->Pull({buffer}, newer),
              HasStatus(absl::StatusCode::kDeadlineExceeded, HasSubstr("1 examples")));
  EXPECT_THAT(reader->Pull({NamedBuffer{"v9", values.data(), 16}}, {}),
              HasStatus(absl::StatusCode::kNotFound, HasSubstr("v9")));
}

TEST_F(ClusterClient, WhatCannotBeJoinedSaysWhy) {
  std::vector<Job> jobs = JoinAll(1);
  EXPECT_THAT(Reader::Open({cluster_->coordinator(), "nobody", absl::Seconds(5)}),
              HasStatus(absl::StatusCode::kNotFound, HasSubstr("nobody")));
  spec_.set_seed(42);
  EXPECT_THAT(Join(), HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("seed")));
  spec_.set_seed(0);
  EXPECT_THAT(Join(), HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("1")));
  JoinOptions nobody_there;
  nobody_there.coordinator = "127.0.0.1:1";
  nobody_there.name = "job";
  nobody_there.timeout = absl::Milliseconds(300);
  EXPECT_THAT(JoinJob(nobody_there),
              HasStatus(absl::StatusCode::kUnavailable, HasSubstr("127.0.0.1:1")));
}

TEST_F(ClusterClient, JobsWithEqualVariableNamesDoNotMeet) {
  std::vector<Job> first = JoinAll(1, 1);
  spec_.set_name("other");
  std::vector<Job> second = JoinAll(1, 5);
  WEIR_ASSERT_OK(PushOnes(first[0], 0));
  EXPECT_THAT(PullAll(*first[0].parameters, declaration_), Each(Each(0)));
  EXPECT_THAT(PullAll(*second[0].parameters, declaration_), Each(Each(5)));
}

}  // namespace
}  // namespace weir
