// SPDX-License-Identifier: Apache-2.0
#include "server/sequence_tracker.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

TEST(SequenceTracker, ASequenceIsCompleteWithItsLastChunkInWhateverOrder) {
  SequenceTracker tracker(uint64_t{70});
  WEIR_ASSERT_OK(tracker.Admit(Sequence{1}, 1));
  for (uint64_t chunk = 70; chunk-- > 1;) EXPECT_FALSE(tracker.Count(Sequence{1}, chunk));
  EXPECT_FALSE(tracker.IsComplete(Sequence{1}));
  EXPECT_FALSE(tracker.Counted(Sequence{1}, 0));
  EXPECT_TRUE(tracker.Counted(Sequence{1}, 69));
  EXPECT_TRUE(tracker.Count(Sequence{1}, 0));
  EXPECT_TRUE(tracker.IsComplete(Sequence{1}));
  EXPECT_EQ(tracker.complete(), 1u);
}

TEST(SequenceTracker, HasBegunWhatAnyChunkIsCountedOf) {
  SequenceTracker tracker(uint64_t{2});
  WEIR_ASSERT_OK(tracker.Admit(Sequence{1}, 1));
  EXPECT_EQ(tracker.begun(), 0u);
  tracker.Count(Sequence{1}, 0);
  EXPECT_EQ(tracker.begun(), 1u);
  WEIR_ASSERT_OK(tracker.Admit(Sequence{2}, 2));
  tracker.Count(Sequence{2}, 0);
  EXPECT_EQ(tracker.begun(), 2u);
  EXPECT_EQ(tracker.complete(), 0u);
  tracker.Count(Sequence{1}, 1);
  EXPECT_EQ(tracker.begun(), 2u);
  tracker.Count(Sequence{2}, 1);
  EXPECT_EQ(tracker.begun(), 2u);
  EXPECT_EQ(tracker.complete(), 2u);
}

TEST(SequenceTracker, TwoSequencesAreOpenAtMost) {
  SequenceTracker tracker(uint64_t{2});
  WEIR_ASSERT_OK(tracker.Admit(Sequence{2}, 2));
  WEIR_ASSERT_OK(tracker.Admit(Sequence{1}, 1));
  EXPECT_THAT(tracker.Admit(Sequence{3}, 3),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("1 and 2")));
}

TEST(SequenceTracker, TheSecondKeepsItsChunksWhenTheFirstIsComplete) {
  SequenceTracker tracker(uint64_t{2});
  WEIR_ASSERT_OK(tracker.Admit(Sequence{1}, 1));
  WEIR_ASSERT_OK(tracker.Admit(Sequence{2}, 2));
  EXPECT_FALSE(tracker.Count(Sequence{1}, 0));
  EXPECT_FALSE(tracker.Count(Sequence{2}, 0));
  EXPECT_TRUE(tracker.Count(Sequence{1}, 1));
  EXPECT_TRUE(tracker.Counted(Sequence{2}, 0));
  EXPECT_FALSE(tracker.Counted(Sequence{2}, 1));
  EXPECT_TRUE(tracker.Count(Sequence{2}, 1));
  EXPECT_EQ(tracker.complete(), 2u);
}

TEST(SequenceTracker, WhatIsCompleteIsCountedForEver) {
  SequenceTracker tracker(uint64_t{1});
  for (uint64_t sequence = 1; sequence <= 3; ++sequence) {
    WEIR_ASSERT_OK(tracker.Admit(Sequence{sequence}, sequence));
    EXPECT_TRUE(tracker.Count(Sequence{sequence}, 0));
  }
  WEIR_EXPECT_OK(tracker.Admit(Sequence{1}, 1));
  EXPECT_TRUE(tracker.Counted(Sequence{1}, 0));
}

TEST(SequenceTracker, KeysRiseWithSequences) {
  SequenceTracker tracker(uint64_t{1});
  WEIR_ASSERT_OK(tracker.Admit(Sequence{2}, 5));
  EXPECT_THAT(tracker.Admit(Sequence{1}, 5),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("5")));
  EXPECT_THAT(tracker.Admit(Sequence{2}, 6),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("5")));
  WEIR_ASSERT_OK(tracker.Admit(Sequence{1}, 4));
}

}  // namespace
}  // namespace weir
