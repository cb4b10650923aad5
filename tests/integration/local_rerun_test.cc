// SPDX-License-Identifier: Apache-2.0
// Jobs in one process that are run again: docs/checkpoints.md, "Running a job again".
#include <gmock/gmock.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "common/file_system.h"
#include "tests/integration/local_checkpoint_fixture.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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
        HasStatus(
            absl::StatusCode::kFailedPrecondition,
            AllOf(HasSubstr(how),
                  HasSubstr("; go on from checkpoint 00000001-0 at step 2 with resume: auto"))));
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
                        HasSubstr("job 'job' has finished, and left no checkpoint; begin anew "
                                  "with replace: true")));
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

TEST_F(LocalCheckpointTest, CheckpointsOfWhichNoRunIsKnownAreNotPushedOut) {
  {
    WEIR_ASSERT_OK_AND_ASSIGN(Job job, Open(OptionsFor("")));
    WEIR_ASSERT_OK(Train(job));
    WEIR_ASSERT_OK(job.session->SaveCheckpoint({}).status());
  }
  // A cluster leaves none here.
  WEIR_ASSERT_OK(FileSystem::Real().RemoveFile(temp_ / "checkpoints/job/local.run"));
  EXPECT_THAT(
      Open(OptionsFor("")).status(),
      HasStatus(absl::StatusCode::kFailedPrecondition,
                AllOf(HasSubstr("go on from checkpoint 00000001-0 at step 1 with resume: auto"),
                      HasSubstr("begin anew with replace: true"))));
  WEIR_EXPECT_OK(Open(OptionsFor("auto")).status());
}

}  // namespace
}  // namespace weir
