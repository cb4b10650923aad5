// SPDX-License-Identifier: Apache-2.0
// What people and tools ask.
#include "tests/unit/coordinator/coordinator_fixture.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

using CoordinatorQueries = CoordinatorTest;

TEST_F(CoordinatorQueries, AnUnknownJobIsNamedToWhoAsksForIt) {
  RunJob(AsyncJob(1), {1});
  const auto unknown =
      HasStatus(absl::StatusCode::kNotFound, HasSubstr("no job 'nothing'; `weir jobs` lists them"));
  v1::ShowJobRequest show;
  show.set_job("nothing");
  EXPECT_THAT(Call(&Coordinator::ShowJob, show), unknown);
  v1::StopJobRequest stop;
  stop.set_job("nothing");
  EXPECT_THAT(Call(&Coordinator::StopJob, stop), unknown);
  EXPECT_FALSE(View().stop());
  v1::SaveCheckpointRequest save;
  save.set_job("nothing");
  const auto saved = Start<v1::SaveCheckpointReply>([&](auto done) {
    coordinator_->SaveCheckpoint(save, clock_.Now() + absl::Minutes(1), std::move(done));
  });
  ASSERT_TRUE(saved->has_value());
  EXPECT_THAT(**saved, HasStatus(absl::StatusCode::kNotFound, HasSubstr("'nothing'")));
}

class StepsOfAFinishedJob : public CoordinatorTest {
 protected:
  std::string Message() {
    v1::ShowJobRequest show;
    show.set_job("job");
    const absl::StatusOr<v1::ShowJobReply> reply = Call(&Coordinator::ShowJob, show);
    return reply.ok() ? reply->job().view().message() : reply.status().ToString();
  }
};

// Pushes of 10 examples: 1 has made 40 and gone, 2 makes the other 60.
TEST_F(StepsOfAFinishedJob, InAsyncAreThePushesOfAllWorkersAndAreKept) {
  RunJob(AsyncJob(2), {1, 2});
  WEIR_ASSERT_OK(Report(1, 40, 400));
  WEIR_ASSERT_OK(Leave(1, false));
  WEIR_ASSERT_OK(Report(2, 60, 600));
  WEIR_ASSERT_OK(Leave(2, true));
  EXPECT_EQ(View().state(), v1::JOB_STATE_FINISHED);
  EXPECT_EQ(Message(), "100 steps");
  Boot();
  EXPECT_EQ(Message(), "100 steps");
}

// 1,000 examples in batches of 15: 66 pushes, and a short one.
TEST_F(StepsOfAFinishedJob, InAsyncHaveTheLastPushThoughItIsShort) {
  v1::JobSpec spec = AsyncJob(1);
  spec.mutable_data()->mutable_batch()->set_global(15);
  RunJob(spec, {1});
  WEIR_ASSERT_OK(Report(1, 67, 1000));
  WEIR_ASSERT_OK(Leave(1, true));
  EXPECT_EQ(Message(), "67 steps");
}

TEST_F(StepsOfAFinishedJob, InSyncAreThoseOfAllTogether) {
  RunJob(SyncJob(2), {1, 2});
  for (const uint64_t worker : {1, 2}) WEIR_ASSERT_OK(Report(worker, 50, 500));
  for (const uint64_t worker : {1, 2}) WEIR_ASSERT_OK(Leave(worker, true));
  EXPECT_EQ(Message(), "50 steps");
}

}  // namespace
}  // namespace weir
