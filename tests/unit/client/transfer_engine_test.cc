// SPDX-License-Identifier: Apache-2.0
#include "client/transfer_engine.h"

#include <gmock/gmock.h>

#include <limits>

#include "rpc/errors.h"
#include "tests/unit/client/engine_fixture.h"

namespace weir {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using TransferEngineTest = EngineFixture;
using Values = std::vector<std::vector<float>>;

TEST_F(TransferEngineTest, PushThenPullOverTwoServersGivesTheSum) {
  AddServer("ps-0", 100);
  AddServer("ps-1", 101);
  view_.declaration = SgdOver({3, 2});
  Start();
  Values gradients = {{1, 2, 3}, {4, 5}};
  const auto pushed = Push(Items(gradients));
  ASSERT_TRUE(pushed->has_value());
  WEIR_ASSERT_OK(**pushed);
  Values weights;
  const auto pulled = Pull(weights);
  WEIR_ASSERT_OK(**pulled);
  EXPECT_THAT(weights, ElementsAre(ElementsAre(-1, -2, -3), ElementsAre(-4, -5)));
  EXPECT_EQ((**pulled)->bytes, 20u);
  EXPECT_THAT(server("ps-0").seen(), SizeIs(2));
  EXPECT_THAT(server("ps-1").seen(), SizeIs(2));
}

TEST_F(TransferEngineTest, PushPullIsOneRoundTrip) {
  AddServer("ps-0", 100);
  view_.declaration = SgdOver({3});
  Start();
  Values gradients = {{1, 2, 3}};
  std::vector<float> into(3);
  const auto done = Push(Items(gradients), {PullItem{0, into.data(), 12}});
  WEIR_ASSERT_OK(**done);
  EXPECT_THAT(into, ElementsAre(-1, -2, -3));
  ASSERT_THAT(server("ps-0").seen(), SizeIs(1));
  EXPECT_EQ(server("ps-0").seen()[0].call, "PushPull");
}

// The second server answers 4 s after the first, which took 3; the payloads are gone at once.
TEST_F(TransferEngineTest, APushSaysHowLongItSentWaitedAndReceived) {
  AddServer("ps-0", 100);
  AddServer("ps-1", 101);
  view_.declaration = SgdOver({3, 2});
  Start();
  server("ps-0").Park();
  server("ps-1").Park();
  Values gradients = {{1, 2, 3}, {4, 5}};
  std::vector<float> into(3);
  const auto done = Push(Items(gradients), {PullItem{0, into.data(), 12}});
  executor_.Advance(absl::Seconds(3));
  server("ps-1").Release();
  executor_.Advance(absl::Seconds(4));
  ASSERT_FALSE(done->has_value());
  server("ps-0").Release();
  WEIR_ASSERT_OK(**done);
  EXPECT_EQ((**done)->sending, absl::ZeroDuration());
  EXPECT_EQ((**done)->waiting, absl::Seconds(3));
  EXPECT_EQ((**done)->receiving, absl::Seconds(4));
}

// It is sent once more within the first second, and the answer comes 5 s later.
TEST_F(TransferEngineTest, UntilItIsSentForTheLastTimeAPushIsBeingSent) {
  AddServer("ps-0", 100);
  view_.declaration = SgdOver({3});
  Start();
  server("ps-0").FailNext(absl::UnavailableError("gone"));
  Values gradients = {{1, 2, 3}};
  const auto done = Push(Items(gradients));
  server("ps-0").Park();
  executor_.Advance(absl::Seconds(1));
  ASSERT_THAT(server("ps-0").seen(), SizeIs(2));
  executor_.Advance(absl::Seconds(5));
  server("ps-0").Release();
  ASSERT_TRUE(done->has_value());
  WEIR_ASSERT_OK(**done);
  EXPECT_GT((**done)->sending, absl::ZeroDuration());
  EXPECT_GE((**done)->waiting, absl::Seconds(5));
  EXPECT_EQ((**done)->sending + (**done)->waiting, absl::Seconds(6));
  EXPECT_EQ((**done)->receiving, absl::ZeroDuration());
}

// ps-0 holds the first optimizer's variable, ps-1 the second's.
TEST_F(TransferEngineTest, AServerThatHoldsNothingOfAGroupIsToldOfItsSteps) {
  AddServer("ps-0", 100);
  AddServer("ps-1", 101);
  view_.declaration = SgdOver({3, 3});
  view_.declaration.groups.push_back(view_.declaration.groups[0]);
  view_.declaration.groups[1].name = "second";
  view_.declaration.variables[1].group = 2;
  for (const auto& [regime, told] :
       {std::make_pair(v1::REGIME_SYNC, 1u), std::make_pair(v1::REGIME_BOUNDED_STALENESS, 2u),
        std::make_pair(v1::REGIME_ASYNC, 2u)}) {
    view_.regime = regime;
    if (engine_ == nullptr) Start();
    NextView();
    Values gradients = {{1, 2, 3}};
    std::vector<float> into(3);
    const auto done = Push(Items(gradients), {PullItem{0, into.data(), 12}});
    WEIR_ASSERT_OK(**done);
    EXPECT_EQ((**done)->push_messages, 1u);
    ASSERT_THAT(server("ps-1").seen(), SizeIs(told)) << v1::Regime_Name(regime);
  }
  const v1::PushRequest note = server("ps-1").seen()[1].push;
  EXPECT_EQ(note.step(), 1u);
  EXPECT_EQ(note.context().worker(), 5u);
  EXPECT_THAT(note.segments(), IsEmpty());
}

TEST_F(TransferEngineTest, APushIsDoneWhenSuchAServerHasAnswered) {
  AddServer("ps-0", 100);
  AddServer("ps-1", 101);
  view_.regime = v1::REGIME_SYNC;
  view_.declaration = SgdOver({3, 3});
  view_.declaration.groups.push_back(view_.declaration.groups[0]);
  view_.declaration.groups[1].name = "second";
  view_.declaration.variables[1].group = 2;
  Start();
  server("ps-1").LoseNextAnswer(absl::UnavailableError("gone"));
  Values gradients = {{1, 2, 3}};
  const auto done = Push(Items(gradients));
  EXPECT_FALSE(done->has_value());
  executor_.Advance(absl::Seconds(1));
  ASSERT_TRUE(done->has_value());
  WEIR_ASSERT_OK(**done);
  EXPECT_THAT(server("ps-0").seen(), SizeIs(1));
  EXPECT_THAT(server("ps-1").seen(), SizeIs(2));
}

TEST_F(TransferEngineTest, AThousandSmallVariablesTravelInFewMessages) {
  AddServer("ps-0", 100);
  view_.declaration = SgdOver(std::vector<uint64_t>(1000, 17));
  Start();
  Values gradients(1000, std::vector<float>(17, 1));
  WEIR_ASSERT_OK(**Push(Items(gradients)));
  EXPECT_THAT(server("ps-0").seen(), SizeIs(1));
  Values weights;
  WEIR_ASSERT_OK(**Pull(weights));
  EXPECT_THAT(weights, Each(Each(-1)));
  EXPECT_THAT(server("ps-0").seen(), SizeIs(2));
}

TEST_F(TransferEngineTest, LargeVariablesAreCutAndReassembled) {
  AddServer("ps-0", 100, 8 << 10, 1 << 10);
  AddServer("ps-1", 101, 8 << 10, 1 << 10);
  view_.declaration = SgdOver({10000});
  view_.shard_bytes = 4096;
  view_.chunk_bytes = 256;
  Start();
  Values gradients(1, std::vector<float>(10000));
  for (size_t i = 0; i < 10000; ++i) gradients[0][i] = static_cast<float>(i);
  WEIR_ASSERT_OK(**Push(Items(gradients)));
  Values weights;
  WEIR_ASSERT_OK(**Pull(weights));
  for (size_t i = 0; i < 10000; ++i) ASSERT_EQ(weights[0][i], -static_cast<float>(i));
  for (const auto& seen : server("ps-0").seen()) EXPECT_LE(seen.payload_bytes, 1024u);
}

TEST_F(TransferEngineTest, BytesInFlightStayBelowTheCredit) {
  AddServer("ps-0", 100, 4096, 1024);
  view_.declaration = SgdOver({10000});
  view_.chunk_bytes = 256;
  Start();
  server("ps-0").Park();
  Values gradients(1, std::vector<float>(10000, 1));
  const auto pushed = Push(Items(gradients));
  EXPECT_THAT(server("ps-0").seen(), SizeIs(4));  // 4 of 1024
  EXPECT_FALSE(pushed->has_value());
  server("ps-0").Release();
  WEIR_ASSERT_OK(**pushed);
  EXPECT_EQ(server("ps-0").most_in_flight_bytes(), 4096u);
  EXPECT_THAT(server("ps-0").seen(), SizeIs(40));  // 40,000 bytes
}

TEST_F(TransferEngineTest, VariablesLeftOutOfAPushAreAbsent) {
  AddServer("ps-0", 100);
  view_.declaration = SgdOver({3, 2, 0});
  Start();
  const std::vector<float> gradient = {4, 5};
  WEIR_ASSERT_OK(**Push({PushItem{1, gradient.data(), 8}}));
  const v1::PushRequest push = server("ps-0").seen()[0].push;
  ASSERT_EQ(push.segments_size(), 2);
  EXPECT_TRUE(push.segments(0).absent());
  EXPECT_FALSE(push.segments(1).absent());
  EXPECT_EQ(server("ps-0").seen()[0].payload_bytes, 8u);
}

TEST_F(TransferEngineTest, NotFiniteGradientIsNamedAndNothingIsSent) {
  AddServer("ps-0", 100);
  view_.declaration = SgdOver({3, 2});
  Start();
  Values gradients = {{1, 2, 3}, {4, std::numeric_limits<float>::infinity()}};
  const auto pushed = Push(Items(gradients));
  EXPECT_TRUE(IsNotFinite((*pushed)->status()));
  EXPECT_THAT((*pushed)->status(),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("'v1'")));
  EXPECT_THAT(server("ps-0").seen(), IsEmpty());
}

TEST_F(TransferEngineTest, NothingButEmptyVariablesIsOrdinary) {
  AddServer("ps-0", 100);
  view_.declaration = SgdOver({0, 0});
  Start();
  Values weights;
  WEIR_ASSERT_OK(**Pull(weights));
  WEIR_ASSERT_OK(**Push({}));
  EXPECT_THAT(server("ps-0").seen(), IsEmpty());
}

TEST_F(TransferEngineTest, HeaderCarriesViewWorkerSequenceAndStep) {
  AddServer("ps-0", 100);
  view_.declaration = SgdOver({1});
  view_.generation = 4;
  Start(77);
  const std::vector<float> gradient = {1};
  for (int i = 0; i < 2; ++i) WEIR_ASSERT_OK(**Push({PushItem{0, gradient.data(), 4}}));
  const v1::PushRequest push = server("ps-0").seen()[1].push;
  EXPECT_EQ(push.context().run_id(), 7u);
  EXPECT_EQ(push.context().attempt(), 1u);
  EXPECT_EQ(push.context().generation(), 4u);
  EXPECT_EQ(push.context().worker(), 77u);
  EXPECT_EQ(push.context().server_incarnation(), 100u);
  EXPECT_EQ(push.group(), 1u);
  EXPECT_EQ(push.sequence(), 2u);
  EXPECT_EQ(push.step(), 1u);
}

TEST_F(TransferEngineTest, PushSaysWhichVersionItsGradientIsOf) {
  AddServer("ps-0", 100);
  view_.declaration = SgdOver({1});
  Start();
  const std::vector<float> gradient = {1};
  const auto push = [&] { WEIR_ASSERT_OK(**Push({PushItem{0, gradient.data(), 4}})); };
  push();
  EXPECT_EQ(server("ps-0").seen()[0].push.segments(0).have_version(), 0u);
  Values weights;
  WEIR_ASSERT_OK(**Pull(weights));  // version 1
  push();
  EXPECT_EQ(server("ps-0").seen()[2].push.segments(0).have_version(), 1u);
  push();  // one's own update is no staleness
  EXPECT_EQ(server("ps-0").seen()[3].push.segments(0).have_version(), 2u);
}

TEST_F(TransferEngineTest, CutDividesPushesByTheirSequence) {
  AddServer("ps-0", 100);
  view_.declaration = SgdOver({1});
  Start();
  const std::vector<float> gradient = {1};
  WEIR_ASSERT_OK(**Push({PushItem{0, gradient.data(), 4}}));
  view_.cut = 9;
  NextView();
  ASSERT_THAT(cuts_, SizeIs(1));
  EXPECT_EQ(cuts_[0].cut.cut, 9u);
  EXPECT_THAT(cuts_[0].cut.last_sequence, ElementsAre(0, 1));
  EXPECT_EQ(cuts_[0].cut.consumed, 32u);
  WEIR_ASSERT_OK(**Push({PushItem{0, gradient.data(), 4}}));
  const v1::PushRequest push = server("ps-0").seen()[1].push;
  EXPECT_EQ(push.cut(), 9u);
  EXPECT_EQ(push.cut_sequence(), 1u);
  EXPECT_EQ(push.sequence(), 2u);
  NextView();  // the same cut again
  EXPECT_THAT(cuts_, SizeIs(1));
}

TEST_F(TransferEngineTest, NothingRunsBeforeTheAttemptIsAdopted) {
  AddServer("ps-0", 100);
  view_.declaration = SgdOver({1});
  Start();
  view_.attempt = 2;
  NextView();
  Values weights;
  EXPECT_TRUE(IsStaleAttempt((*Pull(weights))->status()));
  engine_->Adopt(2);
  WEIR_EXPECT_OK(**Pull(weights));
}

TEST_F(TransferEngineTest, ReaderPullsWithoutAdoptingAnything) {
  AddServer("ps-0", 100);
  view_.declaration = SgdOver({1});
  Start(/*worker=*/0);
  Values weights;
  WEIR_EXPECT_OK(**Pull(weights));
  view_.attempt = 2;
  NextView();
  WEIR_EXPECT_OK(**Pull(weights));
  EXPECT_EQ(server("ps-0").seen()[1].pull.context().attempt(), 2u);
  EXPECT_EQ(server("ps-0").seen()[1].pull.context().worker(), 0u);
}

}  // namespace
}  // namespace weir
