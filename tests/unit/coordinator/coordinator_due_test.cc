// SPDX-License-Identifier: Apache-2.0
// When a checkpoint is due.
#include "rpc/errors.h"
#include "tests/unit/coordinator/coordinator_fixture.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
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

// A save is asked for, and worker 3 comes, while worker 2's join looks for a step: the cut comes
// after that join, and before the next one.
TEST_F(CoordinatorDue, SyncCutComesBetweenTheJoinUnderWayAndTheNext) {
  v1::JobSpec spec = SyncJob(3);
  spec.set_min_workers(1);
  RunJob(spec, {1});
  WEIR_ASSERT_OK(Beat(1, 40));
  servers_.saved_step = 44;
  absl::StatusOr<v1::SaveCheckpointReply> saved = absl::UnknownError("not answered");
  int tries = 0;
  servers_.prepare.answer =
      [&](const v1::ServerInfo&,
          const v1::PrepareStepRequest& request) -> absl::StatusOr<v1::PrepareStepReply> {
    if (++tries == 1) {
      v1::SaveCheckpointRequest save;
      save.set_job("job");
      coordinator_->SaveCheckpoint(save, clock_.Now() + absl::Minutes(1),
                                   [&](const auto& reply) { saved = reply; });
      v1::RegisterRequest join;
      *join.mutable_spec() = spec;
      join.set_worker(3);
      join.set_wanted_rank(-1);
      join.set_protocol_min(1);
      join.set_protocol_max(1);
      coordinator_->Register(join, [](const auto& reply) { WEIR_EXPECT_OK(reply); });
    }
    // Until the save has been begun on the disk, and finds the join under way.
    if (tries <= 6) return StepHasBegun(request.step(), request.step());
    return v1::PrepareStepReply();
  };
  WEIR_ASSERT_OK(Join(2, spec));
  EXPECT_THAT(View().members(), SizeIs(2)) << "the join under way";
  EXPECT_TRUE(absl::IsUnknown(saved.status())) << "which the cut waits for";
  executor_.Advance(kTick);
  WEIR_EXPECT_OK(saved);
  Pass(absl::Seconds(1), {1, 2}, {900, 901});
  EXPECT_THAT(View().members(), SizeIs(3));
  std::vector<std::string> order;
  for (const auto& [server, commit] : servers_.commit.calls) {
    if (server != "server-0") continue;
    order.push_back(commit.has_view() ? absl::StrCat("join of ", commit.view().members_size())
                                      : std::string("cut"));
  }
  EXPECT_THAT(order, ElementsAre("join of 2", "cut", "join of 3"));
}

}  // namespace
}  // namespace weir
