// SPDX-License-Identifier: Apache-2.0
// What servers tell with their heartbeats: memory, and who has left having pushed what.
#include "coordinator/torn_pushes.h"
#include "tests/unit/coordinator/coordinator_fixture.h"

namespace weir {
namespace {

constexpr uint64_t kServer0 = 900;  // of RunJob
constexpr uint64_t kServer1 = 901;

v1::Departure Left(uint64_t worker, uint64_t complete, uint64_t begun, uint64_t attempt = 1) {
  v1::Departure departure;
  departure.set_attempt(attempt);
  departure.set_worker(worker);
  departure.set_group(1);
  departure.set_complete(complete);
  departure.set_begun(begun);
  return departure;
}

TEST(TornPushes, ArePartOfOneServersChunks) {
  TornPushes torn;
  EXPECT_TRUE(torn.Add(Left(1, 6, 7)));
  EXPECT_EQ(torn.count(), 1u);
}

TEST(TornPushes, AreWholeOnOneServerAndMissingOnAnother) {
  TornPushes torn;
  EXPECT_TRUE(torn.Add(Left(1, 5, 5)));
  EXPECT_EQ(torn.count(), 0u);
  EXPECT_TRUE(torn.Add(Left(1, 3, 3)));
  EXPECT_EQ(torn.count(), 2u);
  // 4 is the same push on both.
  EXPECT_TRUE(torn.Add(Left(1, 3, 6)));
  EXPECT_EQ(torn.count(), 3u);
}

TEST(TornPushes, AreNoneWhereAllServersHaveAllChunks) {
  TornPushes torn;
  torn.Add(Left(1, 9, 9));
  torn.Add(Left(1, 9, 9));
  EXPECT_EQ(torn.count(), 0u);
}

TEST(TornPushes, OfWorkersGroupsAndAttemptsAreCountedApart) {
  TornPushes torn;
  torn.Add(Left(1, 9, 9));
  torn.Add(Left(2, 3, 3));
  torn.Add(Left(1, 0, 0, /*attempt=*/2));
  v1::Departure state = Left(1, 1, 1);
  state.set_group(0);
  torn.Add(state);
  EXPECT_EQ(torn.count(), 0u);
}

TEST(TornPushes, ToldTwiceAreNoNews) {
  TornPushes torn;
  EXPECT_TRUE(torn.Add(Left(1, 6, 7)));
  EXPECT_FALSE(torn.Add(Left(1, 6, 7)));
  EXPECT_FALSE(torn.Add(Left(1, 7, 6)));  // no server says so
  EXPECT_EQ(torn.count(), 1u);
}

TEST(TornPushes, OfAThousandWorkersAreCountedInAShortRecord) {
  TornPushes torn;
  for (uint64_t worker = 1; worker <= 1000; ++worker) torn.Add(Left(worker, 6, 7));
  EXPECT_EQ(torn.count(), 1000u);
  v1::JobRecord record;
  torn.Save(record);
  EXPECT_LT(record.departures_size(), 300);
  TornPushes loaded;
  loaded.Load(record);
  EXPECT_EQ(loaded.count(), 1000u);
  EXPECT_FALSE(loaded.Add(Left(1000, 6, 7)));
}

class ServerReportTest : public CoordinatorTest {
 protected:
  v1::ServerReport Report(v1::Departure departure) {
    v1::ServerReport report;
    departure.set_run_id(runs_["job"]);
    *report.add_departures() = departure;
    return report;
  }
  uint64_t Torn() {
    v1::ShowJobRequest request;
    request.set_job("job");
    const auto reply = Call(&Coordinator::ShowJob, request);
    EXPECT_THAT(reply, IsOk());
    return reply.ok() ? reply->job().torn_pushes() : 0;
  }
  uint64_t MemoryOf(int server) {
    const auto reply = Call(&Coordinator::Status, v1::StatusRequest());
    EXPECT_THAT(reply, IsOk());
    return reply.ok() ? reply->servers(server).memory_bytes() : 0;
  }
};

TEST_F(ServerReportTest, TornPushesAreInTheJobsStatusAndOutliveTheCoordinatorAndTheJob) {
  RunJob(AsyncJob(2), {1, 2});
  WEIR_ASSERT_OK(Leave(2, false));
  WEIR_ASSERT_OK(BeatServer(kServer0, Report(Left(2, 4, 4))));
  EXPECT_EQ(Torn(), 0u);
  WEIR_ASSERT_OK(BeatServer(kServer1, Report(Left(2, 3, 4))));
  EXPECT_EQ(Torn(), 1u);
  Boot();
  EXPECT_EQ(Torn(), 1u);
  WEIR_ASSERT_OK(Leave(1, true));
  ASSERT_EQ(View().state(), v1::JOB_STATE_FINISHED);
  WEIR_ASSERT_OK(BeatServer(kServer1, Report(Left(1, 7, 8))));
  EXPECT_EQ(Torn(), 2u);
  Boot();
  EXPECT_EQ(Torn(), 2u);
}

TEST_F(ServerReportTest, RunsThatNobodyKnowsAreNoError) {
  RunJob(AsyncJob(1), {1});
  v1::ServerReport report = Report(Left(1, 0, 1));
  report.mutable_departures(0)->set_run_id(1);
  WEIR_EXPECT_OK(BeatServer(kServer0, report));
  EXPECT_EQ(Torn(), 0u);
}

TEST_F(ServerReportTest, TheStatusHasTheMemoryThatEachServerUses) {
  RunJob(AsyncJob(1), {1});
  v1::ServerReport report;
  report.set_memory_bytes(5000);
  WEIR_ASSERT_OK(BeatServer(kServer1, report));
  EXPECT_EQ(MemoryOf(0), 0u);
  EXPECT_EQ(MemoryOf(1), 5000u);
  // Another process of the same name has not said yet.
  WEIR_ASSERT_OK(AddServer("server-1", 950));
  EXPECT_EQ(MemoryOf(1), 0u);
}

}  // namespace
}  // namespace weir
