// SPDX-License-Identifier: Apache-2.0
#include "rpc/resume_point.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

// 1,000 examples in global batches of 96: 11 steps an epoch, the last of 40.
v1::JobSpec Spec(v1::Regime regime, uint32_t workers = 3, uint64_t batch = 96) {
  v1::JobSpec spec;
  spec.set_train_examples(1000);
  spec.set_workers(workers);
  spec.mutable_data()->mutable_batch()->set_global(batch);
  spec.mutable_regime()->set_kind(regime);
  return spec;
}

v1::Manifest Saved(const v1::JobSpec& spec, uint64_t step, uint64_t examples) {
  v1::Manifest manifest;
  manifest.set_id("00000004-1");
  *manifest.mutable_spec() = spec;
  manifest.set_step(step);
  manifest.set_examples(examples);
  manifest.add_group_steps(7);
  return manifest;
}

// Two epochs and 100 examples are handed out, 60 of them not done: 2,040 are.
v1::Manifest SavedInRanges(const v1::JobSpec& spec, uint64_t step) {
  v1::Manifest manifest = Saved(spec, step, 2050);
  manifest.set_next_epoch(2);
  manifest.set_next_position(100);
  v1::DataRange& unfinished = *manifest.add_unfinished();
  unfinished.set_epoch(1);
  unfinished.set_first(20);
  unfinished.set_end(80);
  return manifest;
}

TEST(ResumePoint, IsTheCheckpointsWhereTheStepsAreTheSame) {
  const v1::ResumePoint resume =
      ResumePointOf(Saved(Spec(v1::REGIME_SYNC), 24, 2100), Spec(v1::REGIME_SYNC));
  EXPECT_EQ(resume.checkpoint_id(), "00000004-1");
  EXPECT_EQ(resume.step(), 24u) << "also where the dead have left examples out";
  EXPECT_EQ(resume.examples(), 2100u);
  EXPECT_EQ(resume.group_steps(0), 7u);
  EXPECT_EQ(ResumePointOf(SavedInRanges(Spec(v1::REGIME_ASYNC), 70), Spec(v1::REGIME_ASYNC)).step(),
            70u);
}

// Step 24 is 192 examples into epoch 2; 21 steps of 48 or 6 of 192 make an epoch.
TEST(ResumePoint, OfSyncIsTheSamePlaceInTheData) {
  const v1::Manifest saved = Saved(Spec(v1::REGIME_SYNC), 24, 2192);
  EXPECT_EQ(ResumePointOf(saved, Spec(v1::REGIME_SYNC, 3, 48)).step(), 2 * 21 + 4u);
  EXPECT_EQ(ResumePointOf(saved, Spec(v1::REGIME_SYNC, 3, 192)).step(), 2 * 6 + 1u);
  EXPECT_EQ(ResumePointOf(saved, Spec(v1::REGIME_SYNC, 3, 200)).step(), 2 * 5 + 0u)
      << "rounded down, so that nothing is left out";
}

TEST(ResumePoint, OfAnotherTrainingSetHasDoneAsManyExamples) {
  v1::JobSpec larger = Spec(v1::REGIME_SYNC);
  larger.set_train_examples(9600);
  EXPECT_EQ(ResumePointOf(Saved(Spec(v1::REGIME_SYNC), 24, 2192), larger).step(), 22u);
}

TEST(ResumePoint, OfRangesCountsWhatIsDoneOfThem) {
  EXPECT_EQ(DataDone(SavedInRanges(Spec(v1::REGIME_ASYNC), 70)), 2040u);
  const v1::Manifest saved = SavedInRanges(Spec(v1::REGIME_ASYNC), 70);
  EXPECT_EQ(ResumePointOf(saved, Spec(v1::REGIME_SYNC)).step(), 22u);
  EXPECT_EQ(ResumePointOf(saved, Spec(v1::REGIME_SYNC, 3, 20)).step(), 102u);
}

// A job in one process fills them in always.
TEST(ResumePoint, OfASyncCheckpointsRangesIsNotAsked) {
  v1::Manifest saved = SavedInRanges(Spec(v1::REGIME_SYNC), 24);
  EXPECT_FALSE(HasDataRanges(saved));
  EXPECT_EQ(ResumePointOf(saved, Spec(v1::REGIME_SYNC)).step(), 24u);
}

// Pushes of 32: 32 an epoch, and 6 make 192 examples.
TEST(ResumePoint, OutsideOfSyncCountsWhatTheExamplesMake) {
  const v1::Manifest saved = Saved(Spec(v1::REGIME_SYNC), 24, 2192);
  EXPECT_EQ(ResumePointOf(saved, Spec(v1::REGIME_ASYNC)).step(), 2 * 32 + 6u);
  EXPECT_EQ(
      ResumePointOf(SavedInRanges(Spec(v1::REGIME_ASYNC), 70), Spec(v1::REGIME_ASYNC, 6)).step(),
      2 * 63 + 3u);
}

TEST(ResumePoint, WithoutATrainingSetStaysTheStep) {
  v1::JobSpec source = Spec(v1::REGIME_SYNC, 3, 48);
  source.set_train_examples(0);
  EXPECT_EQ(ResumePointOf(Saved(Spec(v1::REGIME_SYNC), 24, 2192), source).step(), 24u);
}

TEST(ResumePoint, OfUnfinishedRangesThatAreNoneIsNotUndefined) {
  v1::Manifest saved = SavedInRanges(Spec(v1::REGIME_ASYNC), 70);
  saved.mutable_unfinished(0)->set_end(10);
  EXPECT_EQ(DataDone(saved), 2100u);
}

}  // namespace
}  // namespace weir
