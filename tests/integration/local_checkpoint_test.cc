// SPDX-License-Identifier: Apache-2.0
// Jobs in one process: what they save they go on from, bit for bit, and a cluster's servers can
// read it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "checkpoint/manifest_store.h"
#include "tests/support/eventually.h"
#include "tests/support/manual_executor.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"
#include "weir/v1/coordinator.pb.h"
#include "worker/embedded/local_job.h"
#include "worker/embedded/local_ranges.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr size_t kElements = 100'000;  // several shards

Declaration TwoVariables() {
  Declaration declaration;
  OptimizerGroup& group = declaration.groups.emplace_back();
  group.name = "all";
  group.optimizer = Adam{};
  VariableSpec& weights = declaration.variables.emplace_back();
  weights.name = "weights";
  weights.shape = {kElements};
  VariableSpec& mean = declaration.variables.emplace_back();
  mean.name = "mean";
  mean.dtype = DType::kFloat64;
  mean.shape = {3};
  mean.group = 0;
  return declaration;
}

class LocalCheckpointTest : public ::testing::Test {
 protected:
  LocalJobOptions OptionsFor(const std::string& resume) {
    LocalJobOptions options;
    options.spec.set_name("job");
    options.spec.set_resume(resume);
    options.spec.set_train_examples(1000);
    options.spec.mutable_length()->set_epochs(3);
    options.spec.mutable_data()->mutable_batch()->set_global(100);
    options.spec.mutable_checkpoint()->set_keep(2);
    options.data_dir = temp_.path();
    return options;
  }

  // Opens the job and, where nothing is restored, assigns its initial values.
  absl::StatusOr<Job> Open(const LocalJobOptions& options) {
    absl::StatusOr<Job> job = OpenLocalJob(options);
    if (!job.ok()) return job.status();
    absl::Status status = job->session->Declare(TwoVariables());
    if (!status.ok()) return status;
    absl::StatusOr<JobInfo> info = job->session->WaitUntilReady(absl::Seconds(5));
    if (!info.ok()) return info.status();
    step_ = info->resume_step;
    consumed_ = 0;
    if (info->state != JobState::kInitialising) return job;
    const std::vector<float> weights(kElements, 0.5f);
    const std::vector<double> mean = {1, 2, 3};
    const PushItem items[] = {{0, weights.data(), weights.size() * sizeof(float)},
                              {1, mean.data(), mean.size() * sizeof(double)}};
    status = job->parameters->Assign(items);
    if (status.ok()) status = job->session->ReportInitialised();
    if (!status.ok()) return status;
    info = job->session->WaitUntilReady(absl::Seconds(5));
    if (!info.ok()) return info.status();
    return job;
  }

  // One step, whose gradients and state depend on its number alone.
  absl::Status Train(Job& job) {
    std::vector<float> gradient(kElements);
    for (size_t i = 0; i < kElements; ++i) {
      gradient[i] = 0.001f * static_cast<float>((i * 7 + step_ * 13) % 101) - 0.05f;
    }
    const std::vector<double> mean(3, static_cast<double>(step_));
    consumed_ += 100;
    PushOptions options;
    options.step = options.group_step = step_++;
    options.examples = 100;
    options.consumed = consumed_;
    const PushItem gradients[] = {{0, gradient.data(), gradient.size() * sizeof(float)}};
    const absl::Status pushed = job.parameters->Push(gradients, options).status();
    if (!pushed.ok()) return pushed;
    options.group = 0;
    options.examples = 0;
    const PushItem state[] = {{1, mean.data(), mean.size() * sizeof(double)}};
    return job.parameters->Push(state, options).status();
  }

  absl::StatusOr<std::string> Pull(Job& job) {
    std::string bytes(kElements * sizeof(float) + 3 * sizeof(double), '\0');
    const PullItem items[] = {{0, bytes.data(), kElements * sizeof(float)},
                              {1, bytes.data() + kElements * sizeof(float), 3 * sizeof(double)}};
    const absl::Status status = job.parameters->Pull(items, {}).status();
    if (!status.ok()) return status;
    return bytes;
  }

  TempFolder temp_;
  uint64_t step_ = 0;
  uint64_t consumed_ = 0;
};

TEST_F(LocalCheckpointTest, WhatIsSavedIsGoneOnFromBitForBit) {
  std::string at_the_cut;
  std::string uninterrupted;
  {
    WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(OptionsFor("auto")));
    for (int i = 0; i < 3; ++i) WEIR_ASSERT_OK(Train(job));
    WEIR_ASSERT_OK_AND_ASSIGN(at_the_cut, Pull(job));
    WEIR_ASSERT_OK_AND_ASSIGN(const std::string id, job.session->SaveCheckpoint({{"loss", 0.5}}));
    EXPECT_EQ(id, "00000001-0");
    for (int i = 0; i < 3; ++i) WEIR_ASSERT_OK(Train(job));
    WEIR_ASSERT_OK_AND_ASSIGN(uninterrupted, Pull(job));
  }
  for (const std::string resume : {"auto", "latest", "00000001-0"}) {
    SCOPED_TRACE(resume);
    WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(OptionsFor(resume)));
    const JobInfo info = job.session->Info();
    EXPECT_EQ(info.checkpoint_id, "00000001-0");
    EXPECT_EQ(info.resume_step, 3);
    EXPECT_EQ(info.resume_examples, 300);
    EXPECT_THAT(info.resume_group_steps, ElementsAre(3, 3));
    WEIR_ASSERT_OK_AND_ASSIGN(const std::string restored, Pull(job));
    EXPECT_EQ(restored, at_the_cut);
    for (int i = 0; i < 3; ++i) WEIR_ASSERT_OK(Train(job));
    WEIR_ASSERT_OK_AND_ASSIGN(const std::string continued, Pull(job));
    EXPECT_EQ(continued, uninterrupted);
  }
}

TEST_F(LocalCheckpointTest, TheDataGoesOnBehindWhatWasPushedBeforeTheCut) {
  {
    WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(OptionsFor("")));
    // Three batches are handed out, two of them are pushed.
    WEIR_ASSERT_OK(job.session->TakeRanges(300, absl::ZeroDuration()).status());
    for (int i = 0; i < 2; ++i) WEIR_ASSERT_OK(Train(job));
    WEIR_ASSERT_OK(job.session->SaveCheckpoint({}).status());
  }
  WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(OptionsFor("latest")));
  WEIR_ASSERT_OK_AND_ASSIGN(const TakenRanges taken,
                            job.session->TakeRanges(100, absl::ZeroDuration()));
  ASSERT_THAT(taken.ranges, SizeIs(1));
  EXPECT_EQ(taken.ranges[0].epoch, 0);
  EXPECT_EQ(taken.ranges[0].first, 200);
}

TEST_F(LocalCheckpointTest, TheNewestAreKeptAsManyAsAskedFor) {
  WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(OptionsFor("")));
  for (int i = 0; i < 4; ++i) WEIR_ASSERT_OK(job.session->SaveCheckpoint({}).status());
  ManifestStore manifests(FileSystem::Real(), temp_ / "checkpoints");
  WEIR_ASSERT_OK_AND_ASSIGN(const auto ids, manifests.List("job"));
  EXPECT_THAT(ids, ElementsAre("00000004-0", "00000003-0"));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto parts,
                            FileSystem::Real().List(temp_ / "checkpoints/local/job"));
  EXPECT_THAT(parts, ElementsAre("00000003-0", "00000004-0", "live"));
}

TEST_F(LocalCheckpointTest, AutoPassesOverADamagedOne) {
  std::string older;
  {
    WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(OptionsFor("")));
    WEIR_ASSERT_OK(Train(job));
    WEIR_ASSERT_OK(job.session->SaveCheckpoint({}).status());
    WEIR_ASSERT_OK_AND_ASSIGN(older, Pull(job));
    WEIR_ASSERT_OK(Train(job));
    WEIR_ASSERT_OK(job.session->SaveCheckpoint({}).status());
  }
  const std::string part = temp_ / "checkpoints/local/job/00000002-0";
  WEIR_ASSERT_OK_AND_ASSIGN(const auto names, FileSystem::Real().List(part));
  WEIR_ASSERT_OK(FileSystem::Real().WriteFile(part + "/" + names[0], "damaged"));
  EXPECT_THAT(Open(OptionsFor("latest")),
              HasStatus(absl::StatusCode::kDataLoss, HasSubstr(names[0])));
  WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(OptionsFor("auto")));
  EXPECT_EQ(job.session->Info().checkpoint_id, "00000001-0");
  WEIR_ASSERT_OK_AND_ASSIGN(const std::string restored, Pull(job));
  EXPECT_EQ(restored, older);
}

TEST_F(LocalCheckpointTest, AJobThatIsStoppedByRequestIsSavedWhenItsWorkerLeaves) {
  bool stop = false;
  for (const bool at_end : {true, false}) {
    LocalJobOptions options = OptionsFor("");
    options.spec.set_name(at_end ? "saved" : "not-saved");
    options.spec.mutable_checkpoint()->set_at_end(at_end);
    options.stop_requested = [&] { return stop; };
    stop = false;
    WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(options));
    WEIR_ASSERT_OK(Train(job));
    EXPECT_FALSE(job.session->Info().stop);
    stop = true;
    EXPECT_TRUE(job.session->Info().stop);
    WEIR_ASSERT_OK(job.session->Leave(true, ""));
    options.spec.set_resume("latest");
    stop = false;
    step_ = 0;
    const auto resumed = Open(options);
    EXPECT_EQ(resumed.ok(), at_end) << resumed.status();
    EXPECT_EQ(step_, at_end ? 1u : 0u);
  }
}

// docs/checkpoints.md, "Running a job again".
TEST_F(LocalCheckpointTest, AJobThatHasEndedIsNotBegunAnewUnlessItIsReplaced) {
  for (const std::string how : {"stopped by command", "has finished", "has failed: no data"}) {
    SCOPED_TRACE(how);
    bool stop = how == "stopped by command";
    LocalJobOptions options = OptionsFor("");
    options.spec.set_name(absl::StrCat("job-", how.size()));
    options.spec.mutable_checkpoint()->set_at_end(true);
    options.stop_requested = [&] { return stop; };
    {
      WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(options));
      for (int i = 0; i < 2; ++i) WEIR_ASSERT_OK(Train(job));
      if (!stop) {
        WEIR_ASSERT_OK(job.session->SaveCheckpoint({}).status());
      }
      const bool failed = how == "has failed: no data";
      WEIR_ASSERT_OK(job.session->Leave(!failed, failed ? "no data" : ""));
    }
    stop = false;
    EXPECT_THAT(
        Open(options),
        HasStatus(absl::StatusCode::kFailedPrecondition,
                  AllOf(HasSubstr(how),
                        HasSubstr("; say resume: auto to go on from checkpoint 00000001-0 at step "
                                  "2, or replace: true to begin anew"))));
    options.spec.set_resume("auto");
    {
      WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(options));
      EXPECT_EQ(step_, 2u);
    }
    options.spec.set_resume("");
    options.spec.set_replace(true);
    WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(options));
    EXPECT_EQ(step_, 0u);
  }
}

TEST_F(LocalCheckpointTest, AJobThatHasEndedWithoutACheckpointSaysSo) {
  const LocalJobOptions options = OptionsFor("");
  {
    WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(options));
    WEIR_ASSERT_OK(job.session->Leave(true, ""));
  }
  EXPECT_THAT(Open(options),
              HasStatus(absl::StatusCode::kFailedPrecondition,
                        HasSubstr("job 'job' has finished, and left no checkpoint; say replace: "
                                  "true to begin anew")));
}

TEST_F(LocalCheckpointTest, AJobThatFailedBeforeItHadACheckpointBeginsAnew) {
  const LocalJobOptions options = OptionsFor("");
  {
    WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(options));
    WEIR_ASSERT_OK(Train(job));
    WEIR_ASSERT_OK(job.session->Leave(false, "no data"));
  }
  WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(options));
  EXPECT_EQ(step_, 0u);
}

// Twice: the second time before it has saved anything of its own.
TEST_F(LocalCheckpointTest, AJobThatWasKilledGoesOnFromItsNewestCheckpoint) {
  const LocalJobOptions options = OptionsFor("");
  std::string saved;
  {
    WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(options));
    for (int i = 0; i < 2; ++i) WEIR_ASSERT_OK(Train(job));
    WEIR_ASSERT_OK(job.session->SaveCheckpoint({}).status());
    WEIR_ASSERT_OK_AND_ASSIGN(saved, Pull(job));
    WEIR_ASSERT_OK(Train(job));
  }
  for (uint64_t attempt = 2; attempt <= 3; ++attempt) {
    WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(options));
    EXPECT_EQ(job.session->Info().checkpoint_id, "00000001-0");
    EXPECT_EQ(job.session->Info().attempt, attempt);
    EXPECT_EQ(step_, 2u);
    WEIR_ASSERT_OK_AND_ASSIGN(const std::string restored, Pull(job));
    EXPECT_EQ(restored, saved);
    WEIR_ASSERT_OK(Train(job));
  }
  // What another run has saved is not gone on from.
  LocalJobOptions replacing = options;
  replacing.spec.set_replace(true);
  WEIR_ASSERT_OK(Open(replacing).status());
  WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(options));
  EXPECT_EQ(step_, 0u);
}

TEST_F(LocalCheckpointTest, AJobThatWasKilledBeforeItSavedGoesOnFromWhatItHadResumed) {
  {
    WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(OptionsFor("")));
    for (int i = 0; i < 2; ++i) WEIR_ASSERT_OK(Train(job));
    WEIR_ASSERT_OK(job.session->SaveCheckpoint({}).status());
  }
  {
    WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(OptionsFor("latest")));
    WEIR_ASSERT_OK(Train(job));
  }
  WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(OptionsFor("")));
  EXPECT_EQ(job.session->Info().attempt, 2u);
  EXPECT_EQ(job.session->Info().checkpoint_id, "00000001-0");
  EXPECT_EQ(step_, 2u);
}

TEST_F(LocalCheckpointTest, AJobThatWasKilledGoesOnFromTheOneBeforeADamagedOne) {
  const LocalJobOptions options = OptionsFor("");
  {
    WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(options));
    for (int i = 0; i < 2; ++i) {
      WEIR_ASSERT_OK(Train(job));
      WEIR_ASSERT_OK(job.session->SaveCheckpoint({}).status());
    }
  }
  const std::string part = temp_ / "checkpoints/local/job/00000002-0";
  WEIR_ASSERT_OK_AND_ASSIGN(const auto names, FileSystem::Real().List(part));
  WEIR_ASSERT_OK(FileSystem::Real().WriteFile(part + "/" + names[0], "damaged"));
  WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(options));
  EXPECT_EQ(step_, 1u);
}

TEST_F(LocalCheckpointTest, ADamagedRecordOfTheLastRunIsNamed) {
  const LocalJobOptions options = OptionsFor("");
  WEIR_ASSERT_OK(Open(options).status());
  WEIR_ASSERT_OK(FileSystem::Real().WriteFile(temp_ / "checkpoints/job/local.run", "run_id: x"));
  EXPECT_THAT(Open(options), HasStatus(absl::StatusCode::kDataLoss, HasSubstr("job/local.run")));
}

TEST_F(LocalCheckpointTest, WhatIsNotThereIsNotFound) {
  constexpr auto kCode = absl::StatusCode::kNotFound;
  EXPECT_THAT(Open(OptionsFor("latest")), HasStatus(kCode, HasSubstr("job")));
  EXPECT_THAT(Open(OptionsFor("00000009-0")), HasStatus(kCode, HasSubstr("00000009-0")));
  LocalJobOptions without_folder = OptionsFor("latest");
  without_folder.data_dir.clear();
  EXPECT_THAT(Open(without_folder), HasStatus(kCode, HasSubstr("no data folder")));
  WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(OptionsFor("auto")));
  EXPECT_EQ(job.session->Info().checkpoint_id, "");
}

TEST_F(LocalCheckpointTest, OneThatIsDueIsSavedWhileTheWorkerGoesOn) {
  LocalJobOptions options = OptionsFor("");
  options.spec.mutable_checkpoint()->mutable_every()->set_steps(2);
  WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(options));
  ManifestStore manifests(FileSystem::Real(), temp_ / "checkpoints");
  for (uint64_t step = 1; step <= 3; ++step) {
    WEIR_ASSERT_OK(Train(job));
    Progress progress;
    progress.step = step;
    job.session->ReportProgress(progress);
  }
  EXPECT_TRUE(Eventually([&] {
    const auto ids = manifests.List("job");
    return ids.ok() && ids->size() == 1;
  }));
}

TEST_F(LocalCheckpointTest, OneThatIsDueBySecondsIsSavedSoLongAfterTheLastOne) {
  FakeClock clock;
  const absl::Time start = clock.Now();
  LocalJobOptions options = OptionsFor("");
  options.clock = &clock;
  options.spec.mutable_checkpoint()->mutable_every()->set_seconds(300);
  ManifestStore manifests(FileSystem::Real(), temp_ / "checkpoints");
  {
    WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(options));
    const auto report_at = [&](absl::Duration since) {
      clock.SetNow(start + since);
      Progress progress;
      progress.step = step_;
      job.session->ReportProgress(progress);
    };
    // Reported until it is there: while one is being saved no other is due.
    const auto saves_at = [&](absl::Duration since, size_t number) {
      return Eventually([&] {
        report_at(since);
        const auto ids = manifests.List("job");
        return ids.ok() && ids->size() == number;
      });
    };
    WEIR_ASSERT_OK(Train(job));
    report_at(absl::Seconds(299));
    EXPECT_TRUE(saves_at(absl::Seconds(300), 1));
    report_at(absl::Seconds(599));
    EXPECT_TRUE(saves_at(absl::Seconds(700), 2));
    report_at(absl::Seconds(999));
  }  // a save under way would have ended by now
  WEIR_ASSERT_OK_AND_ASSIGN(const auto ids, manifests.List("job"));
  EXPECT_THAT(ids, ElementsAre("00000002-0", "00000001-0"));
}

TEST_F(LocalCheckpointTest, IntervalsCountFromTheCheckpointThatIsResumed) {
  {
    WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(OptionsFor("")));
    for (int i = 0; i < 5; ++i) WEIR_ASSERT_OK(Train(job));
    WEIR_ASSERT_OK(job.session->SaveCheckpoint({}).status());
  }
  LocalJobOptions options = OptionsFor("latest");
  options.spec.mutable_checkpoint()->mutable_every()->set_steps(3);
  {
    WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(options));
    Progress progress;
    progress.step = 7;  // two steps after the checkpoint
    job.session->ReportProgress(progress);
  }  // a save under way would have ended by now
  ManifestStore manifests(FileSystem::Real(), temp_ / "checkpoints");
  WEIR_ASSERT_OK_AND_ASSIGN(const auto ids, manifests.List("job"));
  EXPECT_THAT(ids, SizeIs(1));
}

LocalRanges RangesOf(LocalRanges::Place place) {
  LocalRanges ranges({.epoch_examples = 250, .batch = 100, .total_examples = 500});
  ranges.Start(std::move(place));
  return ranges;
}

TEST(LocalRanges, UnfinishedRangesOfAClusterComeFirst) {
  LocalRanges ranges = RangesOf({.position = 300, .unfinished = {{0, 100, 200}, {0, 240, 250}}});
  EXPECT_EQ(ranges.Take(100).ranges[0].first, 100);
  EXPECT_EQ(ranges.Take(100).ranges[0].first, 240);
  const TakenRanges next = ranges.Take(100);
  EXPECT_EQ(next.ranges[0].epoch, 1);
  EXPECT_EQ(next.ranges[0].first, 50);
  EXPECT_TRUE(ranges.Take(1000).ranges.size() == 1 && ranges.Take(1).end_of_data);
}

TEST(LocalRanges, WhatIsLeftFollowsFromWhatIsConsumed) {
  const LocalRanges ranges =
      RangesOf({.position = 300, .unfinished = {{0, 100, 200}, {0, 240, 250}}});
  const LocalRanges::Place within = ranges.After(30);
  EXPECT_EQ(within.position, 300);
  ASSERT_EQ(within.unfinished.size(), 2);
  EXPECT_EQ(within.unfinished[0].first, 130);
  const LocalRanges::Place behind = ranges.After(160);  // 100 + 10 + 50
  EXPECT_EQ(behind.position, 350);
  EXPECT_TRUE(behind.unfinished.empty());
}

}  // namespace
}  // namespace weir
