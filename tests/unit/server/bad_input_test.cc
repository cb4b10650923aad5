// SPDX-License-Identifier: Apache-2.0
// Each bad input gets its message and changes nothing.
#include <limits>
#include <random>

#include "server/request_check.h"
#include "tests/unit/server/workers_fixture.h"

namespace weir {
namespace {

class BadInput : public WorkersFixture {
 protected:
  void SetUp() override {
    view.AddGroup("second");
    view.AddVariable("w", 100).AddVariable("v", 20, 2).AddVariable("flags", 8, 0, v1::DTYPE_BOOL);
    view.AddVariable("wide", 10, 1, v1::DTYPE_F64).AddMember(kAnn);
    StartJob(view);
  }
  void TearDown() override {
    EXPECT_EQ(Weights(view, 0), Filled(100, 0));
    EXPECT_EQ(Weights(view, 1), Filled(20, 0));
    EXPECT_EQ(Weights<uint8_t>(view, 2), std::vector<uint8_t>(8));
    EXPECT_EQ(Weights<double>(view, 3), wide_);
  }
  template <typename T = float>
  void ExpectRefused(const v1::PushRequest& request, const std::vector<T>& values,
                     const std::string& message) {
    EXPECT_THAT(Push(request, values).get(),
                HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  }

  std::vector<double> wide_ = std::vector<double>(10, 0);  // what is to be there at the end
};

TEST_F(BadInput, NotANumberIsNamedByVariableElementWorkerAndStep) {
  std::vector<float> values = Filled(100, 1);
  values[77] = std::numeric_limits<float>::quiet_NaN();
  v1::PushRequest request = ann.Push(ann.SegmentsOf(0), 1);
  request.set_step(41);
  const auto refused = Push(request, values);
  EXPECT_TRUE(IsNotFinite(refused.get().status()));
  EXPECT_THAT(refused.get(), HasStatus(absl::StatusCode::kInvalidArgument,
                                       HasSubstr("'w' is not finite at element 77 (worker "
                                                 "000000000000000a, step 41)")));
}

TEST_F(BadInput, AnInfinityInTheLastMessageOfManySegmentsTouchesNone) {
  std::vector<float> values = Filled(100, 1);
  values[99] = -std::numeric_limits<float>::infinity();
  EXPECT_TRUE(IsNotFinite(Push(ann.Push(ann.SegmentsOf(0), 1), values).get().status()));
}

TEST_F(BadInput, AnInfiniteDoubleIsFound) {
  std::vector<double> values(10, 1);
  values[3] = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(IsNotFinite(Push(ann.Push(ann.SegmentsOf(3), 1), values).get().status()));
}

TEST_F(BadInput, TheRightPushOfARefusedSequenceIsTaken) {
  std::vector<double> values(10, 1);
  values[3] = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(IsNotFinite(Push(ann.Push(ann.SegmentsOf(3), 1), values).get().status()));
  values[3] = 1;
  WEIR_ASSERT_OK(Push(ann.Push(ann.SegmentsOf(3), 1), values).get());
  wide_ = std::vector<double>(10, -1);
}

TEST_F(BadInput, ABoolIsZeroOrOne) {
  ExpectRefused(ann.Push(ann.SegmentsOf(2), 1, 0), std::vector<uint8_t>{0, 1, 2, 0, 0, 0, 0, 0},
                "element 2 of 'flags'");
}

TEST_F(BadInput, APayloadOfTheWrongSizeNamesBothSizes) {
  ExpectRefused(ann.Push(ann.SegmentsOf(0), 1), Filled(99, 1),
                "has 396 bytes; the segments need 400");
  // As when a sender takes f64 for f32.
  ExpectRefused(ann.Push(ann.SegmentsOf(0), 1), std::vector<double>(100, 1), "800 bytes");
}

TEST_F(BadInput, AnUnknownShardIsNamed) {
  ExpectRefused(ann.Push(OneSegment(99, 0, 16), 1), Filled(16, 1), "shard 99: unknown");
}

TEST_F(BadInput, SegmentsAreWholeChunksOfTheirShard) {
  ExpectRefused(ann.Push(OneSegment(0, 1, 16), 1), Filled(16, 1), "not whole chunks of 16");
  ExpectRefused(ann.Push(OneSegment(0, 0, 17), 1), Filled(17, 1), "not whole chunks of 16");
  ExpectRefused(ann.Push(OneSegment(0, 0, 0), 1), Filled(0, 1), "count is 0");
  ExpectRefused(ann.Push(OneSegment(0, 64, 16), 1), Filled(16, 1), "beyond the shard's 64 of 'w'");
  ExpectRefused(ann.Push(OneSegment(0, 48, 32), 1), Filled(32, 1), "beyond the shard's 64 of 'w'");
  ExpectRefused(ann.Push(OneSegment(0, 16, UINT64_MAX - 15), 1), Filled(16, 1), "beyond");
  ExpectRefused(ann.Push(OneSegment(0, UINT64_MAX, 1), 1), Filled(1, 1), "beyond");
}

TEST_F(BadInput, SegmentsThatOverlapAreRefused) {
  auto segments = OneSegment(0, 0, 32);
  segments.push_back(OneSegment(0, 16, 32)[0]);
  ExpectRefused(ann.Push(segments, 1), Filled(64, 1), "element 16 of shard 0");
}

TEST_F(BadInput, APushIsOfOneGroup) {
  ExpectRefused(ann.Push(ann.SegmentsOf(1), 1, 1), Filled(20, 1), "'v' is in group 'second'");
  ExpectRefused(ann.Push(ann.SegmentsOf(0), 1, 0), Filled(100, 1),
                "but the push is of group 'state'");
  ExpectRefused(ann.Push(ann.SegmentsOf(0), 1, 9), Filled(100, 1), "group is 9; the job has 2");
}

TEST_F(BadInput, NumbersOutOfTheirRangeAreNamed) {
  const auto with = [&](auto change) {
    v1::PushRequest request = ann.Push(ann.SegmentsOf(0), 1);
    change(request);
    return request;
  };
  ExpectRefused(with([](v1::PushRequest& r) { r.set_sequence(0); }), Filled(100, 1), "sequence");
  ExpectRefused(with([](v1::PushRequest& r) { r.set_weight(-1); }), Filled(100, 1), "weight");
  ExpectRefused(with([](v1::PushRequest& r) { r.set_weight(0); }), Filled(100, 1), "weight");
  ExpectRefused(with([](v1::PushRequest& r) { r.set_weight(1 / 0.0); }), Filled(100, 1), "weight");
  ExpectRefused(with([](v1::PushRequest& r) { r.set_rate_scale(-2); }), Filled(100, 1),
                "rate_scale");
  EXPECT_THAT(Push(with([](v1::PushRequest& r) { r.set_encoding(static_cast<v1::Encoding>(3)); }),
                   Filled(100, 1))
                  .get(),
              HasStatus(absl::StatusCode::kUnimplemented, HasSubstr("encoding 3")));
}

TEST_F(BadInput, AReaderMayOnlyPull) {
  const RequestMaker reader(view, 0);
  ExpectRefused(reader.Push(reader.SegmentsOf(0), 1), Filled(100, 1), "reader");
  EXPECT_THAT(Assign(reader.Assign(reader.SegmentsOf(0)), PayloadOf(Filled(100, 1))),
              HasStatus(absl::StatusCode::kAborted, ::testing::_));
}

TEST_F(BadInput, AShardOfAnotherServerIsRefused) {
  ViewMaker two = view;
  two.edit().set_run_id(8);
  two.edit().set_state(v1::JOB_STATE_INITIALISING);
  WEIR_ASSERT_OK(server->ApplyView(two.Make(/*elsewhere=*/{1})));
  const RequestMaker maker(two, kAnn);
  EXPECT_THAT(Pull(maker.Pull(OneSegment(1, 0, 36))).get(),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("another server")));
}

TEST_F(BadInput, MoreThanOneMessageCanCarryIsRefused) {
  ViewMaker large;
  large.chunk_bytes = 1 << 20;
  large.shard_bytes = 8 << 20;
  large.AddVariable("large", 2 << 20).AddMember(kAnn);
  const auto plan = StorePlan::Create(large.Make(), kServer);
  WEIR_ASSERT_OK(plan);
  const RequestMaker maker(large, kAnn);
  const auto refused = [&](uint64_t count, bool absent, Carrier carrier, uint64_t bytes) {
    const auto segments = absent ? Absent(OneSegment(0, 0, count)) : OneSegment(0, 0, count);
    return !ResolveSegments(**plan, maker.Push(segments, 1).segments(), carrier, bytes).ok();
  };
  EXPECT_TRUE(refused(2 << 20, false, Carrier::kRequest, 8 << 20));
  EXPECT_TRUE(refused(2 << 20, true, Carrier::kBoth, 0));
  EXPECT_FALSE(refused(2 << 20, true, Carrier::kRequest, 0));
  EXPECT_FALSE(refused(1 << 20, false, Carrier::kRequest, 4 << 20));
}

// Whatever is in the numbers of a header, the answer is a status.
class RandomHeaders : public WorkersFixture, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Regimes, RandomHeaders, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Sync" : "Async"; });

TEST_P(RandomHeaders, NeverCrash) {
  if (GetParam()) view.Sync();
  view.AddGroup("second");
  view.AddVariable("w", 100).AddVariable("v", 20, 2).AddVariable("flags", 8, 0, v1::DTYPE_BOOL);
  view.AddMember(kAnn).AddMember(kBob);
  StartJob(view);
  std::mt19937_64 random(1);
  const auto number = [&]() -> uint64_t {
    switch (random() % 5) {
      case 0:
        return random() % 4;
      case 1:
        return 16 * (random() % 5);
      case 2:
        return random();
      case 3:
        return UINT64_MAX - random() % 3;
      default:
        return (uint64_t{1} << (random() % 64)) + random() % 3 - 1;
    }
  };
  for (int i = 0; i < 10000; ++i) {
    v1::PushRequest request = ann.Push({}, number(), static_cast<uint32_t>(number()));
    if (random() % 4 == 0) request.mutable_context()->set_worker(kBob);
    const uint64_t segments = random() % 4;
    for (uint64_t s = 0; s < segments; ++s) {
      v1::Segment& segment = *request.add_segments();
      segment.set_shard(random() % 2 == 0 ? random() % 6 : number());
      segment.set_first_element(number());
      segment.set_count(number());
      segment.set_have_version(number());
      segment.set_absent(random() % 2 == 0);
    }
    request.set_step(number());
    if (random() % 2 == 0) request.set_group_step(number());
    request.set_examples(number());
    request.set_cut(number());
    request.set_cut_sequence(number());
    if (random() % 4 == 0) request.set_weight(static_cast<double>(number()));
    if (random() % 4 == 0) request.mutable_context()->set_worker(number());
    // Zeros, so that what is accepted by chance changes no weights.
    const std::vector<float> values(random() % 2 == 0 ? 16 * (random() % 8) : random() % 200);
    Push(request, values);
    PushPull(request, values);
    v1::PullRequest pull = ann.Pull({}, number());
    *pull.mutable_segments() = request.segments();
    Pull(pull);
    Assign(ann.Assign({request.segments().begin(), request.segments().end()}), PayloadOf(values))
        .IgnoreError();
  }
  executor.Advance(absl::Minutes(1));
  EXPECT_EQ(Weights(view, 0), Filled(100, 0));
}

// Arithmetic alone: nothing of that size is allocated.
TEST(RequestCheck, ShardsBeyondFourGigabytesAreAddressedRightly) {
  constexpr uint64_t kElements = uint64_t{3} << 31;  // of f32: 24 GiB
  constexpr uint64_t kChunk = uint64_t{1} << 31;     // elements: 8 GiB
  ViewMaker view;
  view.chunk_bytes = kChunk * 4;
  view.shard_bytes = kElements * 4;
  view.AddVariable("huge", kElements).AddMember(kAnn);
  const auto plan = StorePlan::Create(view.Make(), kServer);
  WEIR_ASSERT_OK(plan);
  EXPECT_EQ((*plan)->saved_bytes(), kElements * 4);
  const RequestMaker maker(view, kAnn);
  const v1::PullRequest request = maker.Pull(OneSegment(0, 2 * kChunk, kChunk));
  const auto targets = ResolveSegments(**plan, request.segments(), Carrier::kReply, 0);
  WEIR_ASSERT_OK(targets);
  EXPECT_EQ((*targets)[0].first_chunk, 2u);
  EXPECT_EQ((*targets)[0].num_chunks, 1u);
  EXPECT_EQ((*targets)[0].count, kChunk);
  const auto beyond = maker.Pull(OneSegment(0, 3 * kChunk, kChunk));
  EXPECT_THAT(ResolveSegments(**plan, beyond.segments(), Carrier::kReply, 0).status(),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("6442450944")));
}

TEST(RequestCheck, SequencesStepsAndExamplesBeyondThirtyTwoBitsAreRight) {
  SequenceTracker tracker(uint64_t{1});
  EXPECT_THAT(tracker.Admit(Sequence{1}, (uint64_t{1} << 40) + 1), IsOk());
  EXPECT_TRUE(tracker.Count(Sequence{1}, 0));
  EXPECT_THAT(tracker.Admit(Sequence{2}, uint64_t{1} << 40),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("1099511627777")));
  EXPECT_THAT(tracker.Admit(Sequence{2}, (uint64_t{1} << 40) + 2), IsOk());
}

}  // namespace
}  // namespace weir
