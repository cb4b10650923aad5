// SPDX-License-Identifier: Apache-2.0
// When a checkpoint is due.
#include "tests/unit/coordinator/coordinator_fixture.h"

namespace weir {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

using CoordinatorDue = CoordinatorTest;

TEST_F(CoordinatorDue, CheckpointByExamplesAndTheOldOnesGoManifestFirst) {
  v1::JobSpec spec = SyncJob(1);
  spec.mutable_checkpoint()->mutable_every()->set_examples(100);
  spec.mutable_checkpoint()->set_keep(2);
  RunJob(spec, {1});
  for (uint64_t i = 1; i <= 4; ++i) {
    servers_.saved_step = 10 * i;
    servers_.saved_examples = 100 * i;
    WEIR_ASSERT_OK(Report(1, 10 * i - 1, 100 * i - 10));
    Pass(absl::Seconds(1), {1}, {900, 901});
    EXPECT_THAT(Checkpoints(), SizeIs(std::min<uint64_t>(i - 1, 2)));
    WEIR_ASSERT_OK(Report(1, 10 * i, 100 * i));
    Pass(absl::Seconds(1), {1}, {900, 901});
    EXPECT_THAT(Checkpoints(), SizeIs(std::min<uint64_t>(i, 2)));
  }
  EXPECT_EQ(Checkpoints()[0].examples(), 400);
  EXPECT_EQ(Checkpoints()[1].examples(), 300);
  EXPECT_THAT(servers_.drop.calls, SizeIs(4)) << "two old ones on two servers";
}

TEST_F(CoordinatorDue, CheckpointBySecondsSinceTheLastOneWasCommitted) {
  v1::JobSpec spec = SyncJob(1);
  spec.mutable_checkpoint()->mutable_every()->set_seconds(300);
  ASSERT_THAT(AddServer("server-0", 900), IsOk());
  ASSERT_THAT(AddServer("server-1", 901), IsOk());
  Pass(absl::Seconds(200), {}, {900, 901});  // not counted: the job does not run
  RunJob(spec, {1});
  Pass(absl::Seconds(299), {1}, {900, 901});
  EXPECT_THAT(Checkpoints(), IsEmpty());
  Pass(absl::Seconds(2), {1}, {900, 901});
  EXPECT_THAT(Checkpoints(), SizeIs(1));
  // One that somebody asks for counts too.
  Pass(absl::Seconds(200), {1}, {900, 901});
  ASSERT_TRUE(Save()->has_value());
  Pass(absl::Seconds(299), {1}, {900, 901});
  EXPECT_THAT(Checkpoints(), SizeIs(2));
  Pass(absl::Seconds(2), {1}, {900, 901});
  EXPECT_THAT(Checkpoints(), SizeIs(3));
}

// Nothing has been lost while it could not be saved, and it is not saved twice afterwards.
TEST_F(CoordinatorDue, OneThatIsDueBySecondsAndFailsIsTriedAgainAndThenCountsAnew) {
  v1::JobSpec spec = SyncJob(1);
  spec.mutable_checkpoint()->mutable_every()->set_seconds(300);
  RunJob(spec, {1});
  const auto part_of = servers_.save.answer;
  servers_.save.answer = [](const auto&, const auto&) -> absl::StatusOr<v1::SavePartReply> {
    return absl::ResourceExhaustedError("disk full");
  };
  Pass(absl::Seconds(400), {1}, {900, 901});
  EXPECT_THAT(Checkpoints(), IsEmpty());
  servers_.save.answer = part_of;
  Pass(absl::Seconds(61), {1}, {900, 901});  // the longest pause between tries
  EXPECT_THAT(Checkpoints(), SizeIs(1));
  Pass(absl::Seconds(200), {1}, {900, 901});
  EXPECT_THAT(Checkpoints(), SizeIs(1));
}

TEST_F(CoordinatorDue, ACheckpointEverySoManySecondsIsDueSoLongAfterTheRestart) {
  v1::JobSpec spec = SyncJob(1);
  spec.mutable_checkpoint()->mutable_every()->set_seconds(60);
  RunJob(spec, {1});
  Pass(absl::Seconds(50), {1}, {900, 901});
  Boot();
  Pass(absl::Seconds(59), {1}, {900, 901});
  EXPECT_THAT(servers_.save.calls, IsEmpty());
  Pass(absl::Seconds(2), {1}, {900, 901});
  EXPECT_THAT(servers_.save.calls, SizeIs(2));
}

}  // namespace
}  // namespace weir
