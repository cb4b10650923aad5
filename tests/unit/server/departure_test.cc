// SPDX-License-Identifier: Apache-2.0
// What a server tells of workers that have left.
#include "tests/unit/server/workers_fixture.h"

namespace weir {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// Two shards of 64 and 36 elements, chunks of 16, and state.
class Departure : public WorkersFixture, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) view.Sync();
    view.AddVariable("w", 100).AddMember(kAnn).AddMember(kBob);
    StartJob(view);
  }
  // The one departure that is told.
  v1::Departure Told() {
    const v1::ServerReport report = server->Report();
    EXPECT_THAT(report.departures(), SizeIs(1));
    return report.departures().empty() ? v1::Departure() : report.departures(0);
  }
};

INSTANTIATE_TEST_SUITE_P(Regimes, Departure, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Sync" : "Async"; });

TEST_P(Departure, APushOfWhichOneChunkHasCountedIsBegunAndNotComplete) {
  WEIR_ASSERT_OK(Push(ann.Push(ann.SegmentsOf(0), 1), Filled(100, 1)).get());
  WEIR_ASSERT_OK(Push(bob.Push(bob.SegmentsOf(0), 1), Filled(100, 1)).get());
  WEIR_ASSERT_OK(Push(bob.Push(OneSegment(1, 0, 16), 2), Filled(16, 1)).get());
  Remove(kBob);
  const v1::Departure told = Told();
  EXPECT_EQ(told.run_id(), kRun);
  EXPECT_EQ(told.attempt(), 1u);
  EXPECT_EQ(told.worker(), kBob);
  EXPECT_EQ(told.group(), 1u);
  EXPECT_EQ(told.complete(), 1u);
  EXPECT_EQ(told.begun(), 2u);
}

TEST_P(Departure, WholePushesAreComplete) {
  WEIR_ASSERT_OK(Push(bob.Push(bob.SegmentsOf(0), 1), Filled(100, 1)).get());
  Remove(kBob);
  EXPECT_EQ(Told().complete(), 1u);
  EXPECT_EQ(Told().begun(), 1u);
}

// Other servers may have counted what this one has never seen.
TEST_P(Departure, WhoeverHasPushedNothingIsToldToo) {
  Remove(kBob);
  EXPECT_EQ(Told().worker(), kBob);
  EXPECT_EQ(Told().begun(), 0u);
}

TEST_P(Departure, IsToldUntilTheCoordinatorHasIt) {
  Remove(kBob);
  const v1::ServerReport report = server->Report();
  Remove(kAnn);
  EXPECT_THAT(server->Report().departures(), SizeIs(2));
  server->Reported(report);
  EXPECT_EQ(Told().worker(), kAnn);
  server->Reported(server->Report());
  EXPECT_THAT(server->Report().departures(), IsEmpty());
}

TEST_P(Departure, WithWhichTheJobEndsIsTold) {
  WEIR_ASSERT_OK(Push(bob.Push(OneSegment(1, 0, 16), 1), Filled(16, 1)).get());
  view.RemoveMember(kAnn).RemoveMember(kBob).edit().set_state(v1::JOB_STATE_FINISHED);
  WEIR_ASSERT_OK(server->ApplyView(view.NextGeneration().Make()));
  const v1::ServerReport report = server->Report();
  ASSERT_THAT(report.departures(), SizeIs(2));
  EXPECT_EQ(report.departures(1).worker(), kBob);
  EXPECT_EQ(report.departures(1).begun(), 1u);
}

TEST_P(Departure, IsOfNoWorkerThatARollbackInterrupts) {
  WEIR_ASSERT_OK(Push(bob.Push(OneSegment(1, 0, 16), 1), Filled(16, 1)).get());
  view.edit().set_attempt(2);
  WEIR_ASSERT_OK(server->ApplyView(view.NextVersion().Make()));
  EXPECT_THAT(server->Report().departures(), IsEmpty());
}

TEST_P(Departure, IsNotToldOfAGroupThatIsElsewhere) {
  view.edit().set_attempt(2);
  WEIR_ASSERT_OK(server->ApplyView(view.NextVersion().Make(/*elsewhere=*/{0, 1})));
  view.RemoveMember(kBob);
  WEIR_ASSERT_OK(server->ApplyView(view.NextGeneration().Make({0, 1})));
  EXPECT_THAT(server->Report().departures(), IsEmpty());
}

TEST(DepartureLog, WaitsForAMessageThatIsStillBeingApplied) {
  auto of_message = std::make_shared<SequenceTracker>(uint64_t{2});
  DepartureLog log;
  log.Add(
      {.run_id = kRun, .attempt = 1, .worker = WorkerId{kAnn}, .group = 1, .tracker = of_message});
  EXPECT_THAT(log.Settled(), IsEmpty());
  WEIR_ASSERT_OK(of_message->Admit(Sequence{1}, 1));
  of_message->Count(Sequence{1}, 0);
  of_message.reset();
  ASSERT_THAT(log.Settled(), SizeIs(1));
  EXPECT_EQ(log.Settled()[0].begun(), 1u);
}

}  // namespace
}  // namespace weir
