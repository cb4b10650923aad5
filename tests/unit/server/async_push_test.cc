// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/server/workers_fixture.h"

namespace weir {
namespace {

// One variable of 100 f32: shards of 64 and 36 elements, chunks of 16 (the last of 4).
class AsyncPush : public WorkersFixture {
 protected:
  void SetUp() override {
    view.AddVariable("w", 100).AddMember(kAnn).AddMember(kBob);
    StartJob(view);
  }
};

TEST_F(AsyncPush, APushIsAppliedOnArrival) {
  const auto answer = Push(ann.Push(ann.SegmentsOf(0), 1), Filled(100, 2));
  WEIR_ASSERT_OK(answer.get());
  EXPECT_FALSE(answer.get()->outcome().repeated());
  EXPECT_EQ(Weights(view, 0), Filled(100, -2));
}

TEST_F(AsyncPush, PushPullAnswersWithTheNewWeights) {
  const auto answer = PushPull(ann.Push(ann.SegmentsOf(0), 1), Filled(100, 3));
  WEIR_ASSERT_OK(answer.get());
  EXPECT_EQ(ValuesOf<float>(answer.get()->payload), Filled(100, -3));
  ASSERT_EQ(answer.get()->header.segments_size(), 2);
  EXPECT_EQ(answer.get()->header.segments(0).version(), 1u);
  EXPECT_EQ(answer.get()->header.examples(), 1u);
  EXPECT_EQ(answer.get()->header.global_step(), 1u);
}

TEST_F(AsyncPush, ARepeatedPushIsAppliedOnce) {
  const v1::PushRequest request = ann.Push(ann.SegmentsOf(0), 1);
  WEIR_ASSERT_OK(Push(request, Filled(100, 2)).get());
  const auto again = Push(request, Filled(100, 2));
  WEIR_ASSERT_OK(again.get());
  EXPECT_TRUE(again.get()->outcome().repeated());
  const auto pulled = PushPull(request, Filled(100, 2));
  WEIR_ASSERT_OK(pulled.get());
  EXPECT_TRUE(pulled.get()->header.outcome().repeated());
  EXPECT_EQ(ValuesOf<float>(pulled.get()->payload), Filled(100, -2));
}

TEST_F(AsyncPush, ARepeatedPushIsAppliedOnceWhenItsChunksComeOutOfOrder) {
  // Chunks 2, 0, 1 + 2 again, 3: the one in two messages counts once.
  WEIR_ASSERT_OK(Push(ann.Push(OneSegment(0, 32, 16), 1), Filled(16, 1)).get());
  WEIR_ASSERT_OK(Push(ann.Push(OneSegment(0, 0, 16), 1), Filled(16, 1)).get());
  const auto partly = Push(ann.Push(OneSegment(0, 16, 32), 1), Filled(32, 1));
  WEIR_ASSERT_OK(partly.get());
  EXPECT_FALSE(partly.get()->outcome().repeated());
  WEIR_ASSERT_OK(Push(ann.Push(OneSegment(0, 48, 16), 1), Filled(16, 1)).get());
  WEIR_ASSERT_OK(Push(ann.Push(OneSegment(1, 0, 36), 1), Filled(36, 1)).get());
  EXPECT_EQ(Weights(view, 0), Filled(100, -1));
}

TEST_F(AsyncPush, ALaterSequenceWaitsChunkByChunkForTheOneBefore) {
  const auto second = Push(ann.Push(OneSegment(1, 0, 36), 2), Filled(36, 10));
  EXPECT_FALSE(second.has_come());
  WEIR_ASSERT_OK(Push(ann.Push(OneSegment(1, 0, 36), 1), Filled(36, 1)).get());
  WEIR_ASSERT_OK(second.get());
  EXPECT_EQ(Weights(view, 0)[99], -11);
}

TEST_F(AsyncPush, AThirdOpenSequenceIsRefused) {
  EXPECT_THAT(Push(ann.Push(ann.SegmentsOf(0), 3), Filled(100, 1)).get(),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("sequence 3")));
  EXPECT_EQ(Weights(view, 0), Filled(100, 0));
}

TEST_F(AsyncPush, AHeldPushEndsAtItsDeadlineAndSaysWhatItWaitedFor) {
  const auto second = Push(ann.Push(OneSegment(1, 0, 36), 2), Filled(36, 10));
  executor.Advance(absl::Seconds(31));
  EXPECT_THAT(second.get(),
              HasStatus(absl::StatusCode::kDeadlineExceeded, HasSubstr("sequence 1")));
}

TEST_F(AsyncPush, HeldPushesBeyondTheCreditAreRefused) {
  server = nullptr;
  MakeServer(0, /*credit_bytes=*/200);
  ViewMaker own = view;
  StartJob(own);
  const auto held = Push(ann.Push(OneSegment(1, 0, 36), 2), Filled(36, 10));
  EXPECT_FALSE(held.has_come());
  EXPECT_THAT(Push(ann.Push(OneSegment(0, 0, 16), 2), Filled(16, 1)).get(),
              HasStatus(absl::StatusCode::kResourceExhausted, HasSubstr("144")));
}

TEST_F(AsyncPush, AnAbsentSegmentCountsAndChangesNothingButExamples) {
  WEIR_ASSERT_OK(Push(ann.Push(Absent(ann.SegmentsOf(0)), 1), std::vector<float>()).get());
  EXPECT_EQ(Weights(view, 0), Filled(100, 0));
  const auto pulled = Pull(bob.Pull(bob.SegmentsOf(0)));
  EXPECT_EQ(pulled.get()->header.segments(0).version(), 0u);
  EXPECT_EQ(pulled.get()->header.examples(), 1u);
  WEIR_ASSERT_OK(Push(ann.Push(ann.SegmentsOf(0), 2), Filled(100, 1)).get());
}

TEST_F(AsyncPush, StalenessCountsUpdatesByOthersSinceThePull) {
  auto segments = ann.SegmentsOf(0);
  WEIR_ASSERT_OK(Push(bob.Push(segments, 1), Filled(100, 1)).get());
  WEIR_ASSERT_OK(Push(bob.Push(segments, 2), Filled(100, 1)).get());
  WEIR_ASSERT_OK(Push(bob.Push(segments, 3), Filled(100, 1)).get());
  for (v1::Segment& segment : segments) segment.set_have_version(1);
  const auto late = Push(ann.Push(segments, 1), Filled(100, 1));
  WEIR_ASSERT_OK(late.get());
  EXPECT_EQ(late.get()->outcome().staleness(), 2u);
}

TEST_F(AsyncPush, APullLeavesOutWhatTheCallerHas) {
  WEIR_ASSERT_OK(Push(ann.Push(ann.SegmentsOf(0), 1), Filled(100, 1)).get());
  auto segments = ann.SegmentsOf(0);
  segments[0].set_have_version(1);
  const auto pulled = Pull(ann.Pull(segments));
  WEIR_ASSERT_OK(pulled.get());
  EXPECT_TRUE(pulled.get()->header.segments(0).absent());
  EXPECT_FALSE(pulled.get()->header.segments(1).absent());
  EXPECT_EQ(ValuesOf<float>(pulled.get()->payload), Filled(36, -1));
}

TEST_F(AsyncPush, ASegmentWithOneNewerChunkIsSentAgain) {
  // Only the first of four chunks is new: the lowest version is still 0 + 1 elsewhere.
  WEIR_ASSERT_OK(Push(ann.Push(ann.SegmentsOf(0), 1), Filled(100, 1)).get());
  WEIR_ASSERT_OK(Push(ann.Push(OneSegment(0, 0, 16), 2), Filled(16, 1)).get());
  auto segments = OneSegment(0, 0, 64);
  segments[0].set_have_version(1);
  const auto pulled = Pull(ann.Pull(segments));
  WEIR_ASSERT_OK(pulled.get());
  EXPECT_FALSE(pulled.get()->header.segments(0).absent());
  EXPECT_EQ(pulled.get()->payload.size(), 256u);
}

TEST_F(AsyncPush, PushesCompleteWhileAReaderStillHoldsItsChunks) {
  const auto held = Pull(RequestMaker(view, 0).Pull(ann.SegmentsOf(0)));
  for (uint64_t sequence = 1; sequence <= 10; ++sequence) {
    WEIR_ASSERT_OK(Push(ann.Push(ann.SegmentsOf(0), sequence), Filled(100, 1)).get());
  }
  EXPECT_EQ(ValuesOf<float>(held.get()->payload), Filled(100, 0));
  EXPECT_EQ(Weights(view, 0), Filled(100, -10));
}

TEST_F(AsyncPush, TheRateScaleMultipliesTheLearningRate) {
  v1::PushRequest request = ann.Push(ann.SegmentsOf(0), 1);
  request.set_rate_scale(0.5);
  WEIR_ASSERT_OK(Push(request, Filled(100, 2)).get());
  EXPECT_EQ(Weights(view, 0), Filled(100, -1));
}

// The staleness is what the server sees at the push: of each chunk, and at least 1.
TEST_F(AsyncPush, ARateOfOneOverTheStalenessDividesStalePushesAlone) {
  ViewMaker own;
  own.edit().set_run_id(8);
  own.edit().mutable_spec()->mutable_regime()->set_learning_rate_scale(v1::RATE_SCALE_STALENESS);
  own.AddVariable("w", 32).AddMember(kAnn).AddMember(kBob);
  StartJob(own);
  const RequestMaker fast(own, kAnn);
  const RequestMaker slow(own, kBob);
  // Chunk 0 sees 5 updates, chunk 1 the first two of them.
  for (uint64_t sequence = 1; sequence <= 2; ++sequence) {
    WEIR_ASSERT_OK(Push(fast.Push(fast.SegmentsOf(0), sequence), Filled(32, 1)).get());
  }
  for (uint64_t sequence = 3; sequence <= 4; ++sequence) {
    WEIR_ASSERT_OK(Push(fast.Push(OneSegment(0, 0, 16), sequence), Filled(16, 1)).get());
  }
  auto both = slow.SegmentsOf(0);
  both[0].set_have_version(1);
  const auto late = Push(slow.Push(both, 1), Filled(32, 3));
  WEIR_ASSERT_OK(late.get());
  EXPECT_EQ(late.get()->outcome().staleness(), 3u);
  // 4 + 3 / 3, and 2 + 3 / 1.
  EXPECT_EQ(Weights(own, 0)[0], -5);
  EXPECT_EQ(Weights(own, 0)[16], -5);
  // Of fresh weights: as it is.
  both[0].set_have_version(3);
  WEIR_ASSERT_OK(Push(slow.Push(both, 2), Filled(32, 1)).get());
  EXPECT_EQ(Weights(own, 0)[16], -6);
}

TEST_F(AsyncPush, ARateOfOneOverTheWorkersCountsThoseThatAreAlive) {
  ViewMaker own;
  own.edit().set_run_id(8);
  own.edit().mutable_spec()->mutable_regime()->set_learning_rate_scale(v1::RATE_SCALE_WORKERS);
  own.AddVariable("w", 16).AddMember(kAnn).AddMember(kBob);
  StartJob(own);
  const RequestMaker maker(own, kAnn);
  WEIR_ASSERT_OK(Push(maker.Push(maker.SegmentsOf(0), 1), Filled(16, 3)).get());
  EXPECT_EQ(Weights(own, 0), Filled(16, -1.5));
  WEIR_ASSERT_OK(server->ApplyView(own.RemoveMember(kBob).NextGeneration().Make()));
  WEIR_ASSERT_OK(Push(maker.Push(maker.SegmentsOf(0), 2), Filled(16, 3)).get());
  EXPECT_EQ(Weights(own, 0), Filled(16, -4.5));
}

TEST_F(AsyncPush, TheScheduleCountsTheExamplesOfEachChunk) {
  // Warm-up over 10 examples: rates (0 + 4) / 10 and (4 + 4) / 10.
  ViewMaker warm;
  warm.edit().set_run_id(8);
  warm.optimizer().mutable_learning_rate()->set_warm_up_examples(10);
  warm.AddVariable("w", 16).AddMember(kAnn);
  StartJob(warm);
  const RequestMaker maker(warm, kAnn);
  for (uint64_t sequence = 1; sequence <= 2; ++sequence) {
    v1::PushRequest request = maker.Push(maker.SegmentsOf(0), sequence);
    request.set_examples(4);
    WEIR_ASSERT_OK(Push(request, Filled(16, 1)).get());
  }
  EXPECT_NEAR(Weights(warm, 0)[0], -1.2, 1e-6);
}

TEST_F(AsyncPush, APayloadInAnySlicesGivesTheSame) {
  auto* bytes = new std::vector<float>(100);
  for (size_t i = 0; i < 100; ++i) (*bytes)[i] = static_cast<float>(i);
  const std::vector<float> expected = *bytes;
  Payload payload;
  const auto* data = reinterpret_cast<const std::byte*>(bytes->data());
  // Slices of 1, 2, 3, ... bytes: elements straddle them.
  size_t size = 1;
  for (size_t done = 0; done < 400; done += size, ++size) {
    if (done + size >= 400) size = 400 - done;
    const bool last = done + size == 400;
    payload.Append(data + done, size, last ? bytes : nullptr,
                   last ? [](void* owner) { delete static_cast<std::vector<float>*>(owner); }
                        : Payload::Release{nullptr});
  }
  Answer<v1::PushReply> answer;
  server->Push(ann.Push(ann.SegmentsOf(0), 1), std::move(payload), Soon(), answer.Callback());
  WEIR_ASSERT_OK(answer.get());
  const std::vector<float> weights = Weights(view, 0);
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(weights[i], -expected[i]);
}

TEST_F(AsyncPush, AnEmptyPushIsOrdinary) {
  WEIR_ASSERT_OK(Push(ann.Push({}, 1), std::vector<float>()).get());
}

TEST_F(AsyncPush, ADepartedWorkersPushIsRefused) {
  view.RemoveMember(kBob).NextGeneration();
  WEIR_ASSERT_OK(server->ApplyView(view.Make()));
  EXPECT_TRUE(IsNotAMember(Push(bob.Push(bob.SegmentsOf(0), 1), Filled(100, 1)).get().status()));
  EXPECT_EQ(Weights(view, 0), Filled(100, 0));
}

TEST_F(AsyncPush, AVariableWithoutElementsIsOrdinary) {
  ViewMaker empty;
  empty.edit().set_run_id(8);
  empty.AddVariable("nothing", 0).AddVariable("w", 16).AddMember(kAnn);
  StartJob(empty);
  const RequestMaker maker(empty, kAnn);
  EXPECT_TRUE(maker.SegmentsOf(0).empty());
  WEIR_ASSERT_OK(Pull(maker.Pull(maker.SegmentsOf(0))).get());
  WEIR_ASSERT_OK(Push(maker.Push(maker.SegmentsOf(1), 1), Filled(16, 1)).get());
  EXPECT_EQ(Weights(empty, 1), Filled(16, -1));
}

}  // namespace
}  // namespace weir
