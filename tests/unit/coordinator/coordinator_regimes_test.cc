// SPDX-License-Identifier: Apache-2.0
// Bounded staleness, backup workers, sync groups: who joins where, who waits for whom, whose data.
#include "tests/unit/coordinator/coordinator_fixture.h"

namespace weir {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kNotSettled = ~uint64_t{0};

class CoordinatorRegimes : public CoordinatorTest {
 protected:
  static v1::JobSpec BoundedJob(uint32_t workers, uint64_t bound) {
    v1::JobSpec spec = AsyncJob(workers);
    spec.mutable_regime()->set_kind(v1::REGIME_BOUNDED_STALENESS);
    spec.mutable_regime()->set_bounded_staleness(bound);
    return spec;
  }
  static v1::JobSpec GroupsJob(uint32_t workers, uint64_t size) {
    v1::JobSpec spec = AsyncJob(workers);
    spec.mutable_regime()->set_kind(v1::REGIME_SYNC_GROUPS);
    spec.mutable_regime()->set_sync_group_size(size);
    return spec;
  }
  // Of a group of which `consumed` examples are done, of which this worker has had `own`.
  static v1::Progress GroupProgress(uint64_t own, uint64_t consumed) {
    v1::Progress progress;
    progress.set_step(1);
    progress.set_examples(own);
    progress.set_consumed(consumed);
    return progress;
  }
  std::vector<uint64_t> StopSteps() {
    const v1::JobView view = View();
    std::vector<uint64_t> steps;
    for (const v1::Member& member : view.members()) steps.push_back(member.stop_step());
    return steps;
  }
  v1::JobStatus Show() {
    v1::ShowJobRequest request;
    request.set_job("job");
    const auto reply = Call(&Coordinator::ShowJob, request);
    EXPECT_THAT(reply, IsOk());
    return reply.ok() ? reply->job() : v1::JobStatus();
  }
  std::vector<uint32_t> Groups() {
    std::vector<uint32_t> groups;
    const v1::JobView view = View();
    for (const v1::Member& member : view.members()) groups.push_back(member.sync_group());
    return groups;
  }
};

TEST_F(CoordinatorRegimes, AJoinerOfABoundedJobBeginsAtTheSlowestOnesStep) {
  v1::JobSpec spec = BoundedJob(3, 2);
  spec.set_min_workers(2);
  RunJob(spec, {1, 2});
  WEIR_ASSERT_OK(Beat(1, 9));
  WEIR_ASSERT_OK(Beat(2, 7));
  WEIR_ASSERT_OK(Join(3, spec));
  ASSERT_THAT(View().members(), SizeIs(3));
  EXPECT_EQ(View().members(2).first_step(), 7);
  EXPECT_THAT(servers_.prepare.calls, IsEmpty());
}

TEST_F(CoordinatorRegimes, TheStatusOfAWaitingWorkerSaysForWhom) {
  RunJob(BoundedJob(3, 2), {1, 2, 3});
  WEIR_ASSERT_OK(Beat(1, 4));
  WEIR_ASSERT_OK(Beat(2, 2));
  WEIR_ASSERT_OK(Beat(3, 1));
  EXPECT_THAT(Show().workers(0).waits_for(), ElementsAre(2));
  EXPECT_THAT(Show().workers(1).waits_for(), IsEmpty());
  WEIR_ASSERT_OK(Beat(3, 2));
  EXPECT_THAT(Show().workers(0).waits_for(), IsEmpty());
}

TEST_F(CoordinatorRegimes, NobodyIsSaidToWaitForABackupWorker) {
  v1::JobSpec spec = SyncJob(3);
  spec.mutable_regime()->set_backup_workers(1);
  RunJob(spec, {1, 2, 3});
  WEIR_ASSERT_OK(Beat(1, 5));
  EXPECT_THAT(Show().workers(0).waits_for(), ElementsAre(1, 2));
  WEIR_ASSERT_OK(Beat(2, 5));
  EXPECT_THAT(Show().workers(0).waits_for(), IsEmpty());
}

TEST_F(CoordinatorRegimes, LatePushesAreSummedOverTheJobWithThoseOfTheDeparted) {
  v1::JobSpec spec = SyncJob(3);
  spec.mutable_regime()->set_backup_workers(1);
  RunJob(spec, {1, 2, 3});
  for (uint64_t worker = 1; worker <= 3; ++worker) {
    v1::ReportProgressRequest request;
    request.set_run_id(run_of_[worker]);
    request.set_worker(worker);
    request.set_attempt(1);
    request.mutable_progress()->set_step(5);
    request.mutable_progress()->set_late_pushes(worker);
    WEIR_ASSERT_OK(Call(&Coordinator::ReportProgress, request));
  }
  EXPECT_EQ(Show().late_pushes(), 6);
  WEIR_ASSERT_OK(Leave(3, false));
  EXPECT_EQ(Show().late_pushes(), 6);
}

TEST_F(CoordinatorRegimes, BackupWorkersWithTwoOptimizersAreRefused) {
  v1::JobSpec spec = SyncJob(2);
  spec.mutable_regime()->set_backup_workers(1);
  WEIR_ASSERT_OK(Join(1, spec));
  v1::Declaration two = OneVariable();
  *two.add_groups() = two.groups(0);
  two.mutable_groups(1)->set_name("other");
  EXPECT_THAT(Declare(1, two),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("backup_workers")));
  WEIR_EXPECT_OK(Declare(1, OneVariable()));
}

TEST_F(CoordinatorRegimes, SyncGroupsAreFormedByRankInOrder) {
  RunJob(GroupsJob(6, 2), {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(Groups(), ElementsAre(0, 0, 1, 1, 2, 2));
}

TEST_F(CoordinatorRegimes, AJoinerGoesToTheSmallestGroupAtItsBoundary) {
  RunJob(GroupsJob(4, 2), {1, 2, 3, 4});
  WEIR_ASSERT_OK(Beat(1, 90));
  WEIR_ASSERT_OK(Beat(2, 90));
  WEIR_ASSERT_OK(Beat(3, 20));
  WEIR_ASSERT_OK(Beat(4, 20));
  WEIR_ASSERT_OK(Leave(4, false));
  EXPECT_THAT(Groups(), ElementsAre(0, 0, 1));
  WEIR_ASSERT_OK(Join(5, GroupsJob(4, 2)));
  ASSERT_THAT(servers_.commit.calls, SizeIs(2));
  EXPECT_EQ(servers_.prepare.calls[0].second.sync_group(), 1);
  EXPECT_EQ(servers_.prepare.calls[0].second.step(), 21);
  EXPECT_THAT(Groups(), ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(View().members(3).first_step(), 23);
  EXPECT_EQ(servers_.commit.calls[0].second.view().members(3).sync_group(), 1);
}

TEST_F(CoordinatorRegimes, AGroupThatIsEmptyIsGoneAndANewOneTakesNoNumberAgain) {
  RunJob(GroupsJob(4, 2), {1, 2, 3, 4});
  WEIR_ASSERT_OK(Beat(3, 20));
  WEIR_ASSERT_OK(Leave(3, false));
  WEIR_ASSERT_OK(Leave(4, false));
  EXPECT_THAT(Groups(), ElementsAre(0, 0));
  // The other is full: the newcomer begins one, at once, where the attempt began.
  WEIR_ASSERT_OK(Join(5, GroupsJob(4, 2)));
  EXPECT_THAT(servers_.prepare.calls, IsEmpty());
  EXPECT_THAT(Groups(), ElementsAre(0, 0, 2));
  EXPECT_EQ(View().members(2).first_step(), 0);
  Boot();
  WEIR_ASSERT_OK(Leave(5, false));
  WEIR_ASSERT_OK(Join(6, GroupsJob(4, 2)));
  EXPECT_THAT(Groups(), ElementsAre(0, 0, 3));
}

TEST_F(CoordinatorRegimes, AWaitIsWithinTheSyncGroup) {
  RunJob(GroupsJob(4, 2), {1, 2, 3, 4});
  WEIR_ASSERT_OK(Beat(1, 5));
  WEIR_ASSERT_OK(Beat(2, 4));
  EXPECT_THAT(Show().workers(0).waits_for(), ElementsAre(1));
  EXPECT_EQ(Show().workers(2).sync_group(), 1);
}

// 1,000 examples, batches of 20 for each group of two.
TEST_F(CoordinatorRegimes, MembersOfASyncGroupTakeTheSameRangesAlsoOneThatJoins) {
  v1::JobSpec spec = GroupsJob(4, 2);
  spec.set_min_workers(3);
  RunJob(spec, {1, 2, 3});
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::TakeRangesReply first, Take(1, 1, 40));
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::TakeRangesReply other, Take(3, 1, 40));
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::TakeRangesReply second, Take(1, 2, 40));
  ASSERT_THAT(first.ranges(), SizeIs(1));
  EXPECT_EQ(first.ranges(0).first(), 0);
  EXPECT_EQ(first.ranges(0).end(), 40);
  EXPECT_EQ(other.ranges(0).first(), 40);
  EXPECT_EQ(second.ranges(0).first(), 80);
  for (const auto& [request, answer] : {std::make_pair(1, first), std::make_pair(2, second)}) {
    WEIR_ASSERT_OK_AND_ASSIGN(const v1::TakeRangesReply again, Take(2, request, 9999));
    EXPECT_EQ(again.DebugString(), answer.DebugString());
  }
  WEIR_ASSERT_OK(Join(4, spec));
  Boot();
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::TakeRangesReply joiners, Take(4, 1, 9999));
  EXPECT_EQ(joiners.DebugString(), other.DebugString());
}

TEST_F(CoordinatorRegimes, WhatASyncGroupHoldsComesBackWithItsLastMember) {
  RunJob(GroupsJob(4, 2), {1, 2, 3, 4});
  WEIR_ASSERT_OK(Take(1, 1, 40));
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::TakeRangesReply lost, Take(3, 1, 40));
  WEIR_ASSERT_OK(Leave(3, false));
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::TakeRangesReply next, Take(1, 2, 40));
  EXPECT_NE(next.ranges(0).first(), lost.ranges(0).first());
  WEIR_ASSERT_OK(Leave(4, false));
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::TakeRangesReply back, Take(1, 3, 40));
  EXPECT_EQ(back.ranges(0).first(), lost.ranges(0).first());
}

// As in `sync`: of a change at step f all know at f + 2.
TEST_F(CoordinatorRegimes, EachSyncGroupStopsBeforeAStepOfItsOwn) {
  RunJob(GroupsJob(4, 2), {1, 2, 3, 4});
  WEIR_ASSERT_OK(Beat(1, 40));
  WEIR_ASSERT_OK(Beat(4, 7));
  WEIR_ASSERT_OK(Stop());
  EXPECT_THAT(StopSteps(), ElementsAre(43, 43, kNotSettled, kNotSettled));
  Pass(absl::Seconds(1), {1, 2, 3, 4}, {900, 901});
  EXPECT_THAT(StopSteps(), ElementsAre(43, 43, 10, 10));
  ASSERT_THAT(servers_.prepare.calls, SizeIs(4)) << "of two servers";
  EXPECT_EQ(servers_.prepare.calls[3].second.sync_group(), 1);
  EXPECT_EQ(servers_.prepare.calls[3].second.step(), 8);
}

// The servers are still to come to the boundary of the group before.
TEST_F(CoordinatorRegimes, ASyncGroupIsAskedAgainForItsLastStepWhileTheServersAreBusy) {
  RunJob(GroupsJob(4, 2), {1, 2, 3, 4});
  int refused = 0;
  servers_.prepare.answer =
      [&](const auto&,
          const v1::PrepareStepRequest& request) -> absl::StatusOr<v1::PrepareStepReply> {
    if (request.sync_group() == 0 || ++refused > 4) return v1::PrepareStepReply();
    return absl::FailedPreconditionError("change 256 is under way at step 1");
  };
  WEIR_ASSERT_OK(Stop());
  Pass(absl::Seconds(1), {1, 2, 3, 4}, {900, 901});
  EXPECT_GT(refused, 4);
  EXPECT_THAT(StopSteps(), ElementsAre(3, 3, 3, 3));
}

TEST_F(CoordinatorRegimes, SyncGroupsStopAlsoWhereNoStepCanBeAgreedOn) {
  RunJob(GroupsJob(4, 2), {1, 2, 3, 4});
  servers_.prepare.answer = [](const auto&, const auto&) -> absl::StatusOr<v1::PrepareStepReply> {
    return absl::UnavailableError("away");
  };
  WEIR_ASSERT_OK(Stop());
  Pass(absl::Seconds(15), {1, 2, 3, 4}, {900, 901});
  EXPECT_THAT(StopSteps(), Each(kNotSettled));
  Pass(absl::Seconds(10), {1, 2, 3, 4}, {900, 901});
  EXPECT_THAT(StopSteps(), Each(0));
}

TEST_F(CoordinatorRegimes, AWorkerThatIsAloneInItsSyncGroupNeedsNoAgreementToStop) {
  v1::JobSpec spec = GroupsJob(4, 2);
  spec.set_min_workers(3);
  RunJob(spec, {1, 2, 3});
  WEIR_ASSERT_OK(Stop());
  Pass(absl::Seconds(1), {1, 2, 3}, {900, 901});
  EXPECT_THAT(StopSteps(), ElementsAre(3, 3, 0));
  EXPECT_THAT(servers_.prepare.calls, SizeIs(2));
}

// A batch of 20 of the 40 is done, 10 by each of the two.
TEST_F(CoordinatorRegimes, WhatAStoppedSyncGroupHasDoneIsNotInItsCheckpointAsUnfinished) {
  v1::JobSpec spec = GroupsJob(4, 2);
  spec.mutable_checkpoint()->set_at_end(true);
  RunJob(spec, {1, 2, 3, 4});
  WEIR_ASSERT_OK(Take(1, 1, 40));
  WEIR_ASSERT_OK(Take(2, 1, 40));
  servers_.saved_step = 1;
  WEIR_ASSERT_OK(Stop());
  for (const uint64_t worker : {1, 2, 3, 4}) {
    v1::LeaveRequest leave;
    leave.set_run_id(run_of_[worker]);
    leave.set_worker(worker);
    leave.set_finished(true);
    leave.set_attempt(1);
    if (worker <= 2) *leave.mutable_progress() = GroupProgress(10, 20);
    WEIR_ASSERT_OK(Call(&Coordinator::Leave, leave));
  }
  ASSERT_THAT(Checkpoints(), SizeIs(1));
  const v1::Manifest manifest = Checkpoints()[0];
  EXPECT_EQ(manifest.next_position(), 40);
  ASSERT_THAT(manifest.unfinished(), SizeIs(1));
  EXPECT_EQ(manifest.unfinished(0).first(), 20);
  EXPECT_EQ(manifest.unfinished(0).end(), 40);
}

TEST_F(CoordinatorRegimes, WhatADeadSyncGroupHasReportedIsNotTrainedOnAgain) {
  RunJob(GroupsJob(4, 2), {1, 2, 3, 4});
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::TakeRangesReply held, Take(3, 1, 40));
  v1::ReportProgressRequest report;
  report.set_run_id(run_of_[3]);
  report.set_worker(3);
  report.set_attempt(1);
  *report.mutable_progress() = GroupProgress(10, 20);
  WEIR_ASSERT_OK(Call(&Coordinator::ReportProgress, report));
  Pass(2 * kLease, {1, 2}, {900, 901});
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::TakeRangesReply back, Take(1, 1, 40));
  EXPECT_EQ(back.ranges(0).first(), held.ranges(0).first() + 20);
}

// Worker 1 has begun its step 7 and worker 2, of the same group, has not: it is asked to.
TEST_F(CoordinatorRegimes, TheMarksOfASyncGroupAreBroughtToOneStep) {
  RunJob(GroupsJob(4, 2), {1, 2, 3, 4});
  Save();
  const uint64_t cut = View().cut();
  ASSERT_NE(cut, 0);
  const auto mark = [&](uint64_t worker, uint64_t sequence, uint64_t next_group_step) {
    v1::ReportCutRequest request;
    request.set_run_id(run_of_[worker]);
    request.set_worker(worker);
    request.set_attempt(1);
    request.set_cut(cut);
    v1::CutMark& cut_mark = *request.add_marks();
    cut_mark.set_worker(worker);
    cut_mark.set_group(1);
    cut_mark.set_last_sequence(sequence);
    cut_mark.set_next_group_step(next_group_step);
    WEIR_ASSERT_OK(Call(&Coordinator::ReportCut, request));
  };
  mark(1, 8, 8);
  mark(2, 3, 7);  // it joined at step 4
  mark(3, 2, 2);
  mark(4, 0, 0);  // has pushed nothing yet
  ASSERT_THAT(servers_.save.calls, SizeIs(2));
  std::map<uint64_t, uint64_t> last;
  for (const v1::CutMark& cut_mark : servers_.save.calls[0].second.marks()) {
    last[cut_mark.worker()] = cut_mark.last_sequence();
  }
  EXPECT_EQ(last[1], 8);
  EXPECT_EQ(last[2], 4);
  EXPECT_EQ(last[3], 2);
  EXPECT_EQ(last[4], 2);
}

}  // namespace
}  // namespace weir
