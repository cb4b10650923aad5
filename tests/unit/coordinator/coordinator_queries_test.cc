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

}  // namespace
}  // namespace weir
