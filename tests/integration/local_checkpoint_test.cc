// SPDX-License-Identifier: Apache-2.0
// Jobs in one process: what they save they go on from, bit for bit, and a cluster's servers can
// read it.
#include <gmock/gmock.h>

#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "checkpoint/manifest_store.h"
#include "tests/integration/local_checkpoint_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/manual_executor.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

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

TEST_F(LocalCheckpointTest, StepsAreOfTheBatchThatGoesOn) {
  {
    WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(OptionsFor("")));
    for (int i = 0; i < 3; ++i) WEIR_ASSERT_OK(Train(job));
    WEIR_ASSERT_OK(job.session->SaveCheckpoint({}).status());
  }
  // 300 examples; of 4 workers in `async` each would push a quarter of the batch.
  for (const auto& [regime, batch, workers, step] :
       std::vector<std::tuple<v1::Regime, uint64_t, uint32_t, uint64_t>>{
           {v1::REGIME_ASYNC, 100, 1, 3},
           {v1::REGIME_ASYNC, 50, 1, 6},
           {v1::REGIME_ASYNC, 100, 4, 12},
           {v1::REGIME_SYNC, 50, 4, 6},
           {v1::REGIME_SYNC, 200, 4, 1}}) {
    SCOPED_TRACE(absl::StrCat(step));
    LocalJobOptions options = OptionsFor("latest");
    options.spec.mutable_regime()->set_kind(regime);
    options.spec.mutable_data()->mutable_batch()->set_global(batch);
    options.spec.set_workers(workers);
    WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(options));
    EXPECT_EQ(job.session->Info().resume_step, step);
    EXPECT_EQ(job.session->Info().members[0].first_step, step);
  }
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
    {
      WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(options));
      WEIR_ASSERT_OK(Train(job));
      EXPECT_FALSE(job.session->Info().stop);
      stop = true;
      EXPECT_TRUE(job.session->Info().stop);
      WEIR_ASSERT_OK(job.session->Leave(true, ""));
    }
    options.spec.set_resume("latest");
    stop = false;
    step_ = 0;
    const auto resumed = Open(options);
    EXPECT_EQ(resumed.ok(), at_end) << resumed.status();
    EXPECT_EQ(step_, at_end ? 1u : 0u);
  }
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

// It would sweep away what the other is writing, and take its run over.
TEST_F(LocalCheckpointTest, AFolderIsOneJobsAtATime) {
  {
    WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(OptionsFor("")));
    EXPECT_THAT(OpenLocalJob(OptionsFor("")).status(),
                HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr(temp_ / "checkpoints")));
    WEIR_EXPECT_OK(job.session->SaveCheckpoint({}));
  }
  WEIR_EXPECT_OK(OpenLocalJob(OptionsFor("")));
}

}  // namespace
}  // namespace weir
