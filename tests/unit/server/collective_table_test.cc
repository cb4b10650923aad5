// SPDX-License-Identifier: Apache-2.0
// Who meets whom in a collective: members that leave, repetitions, memory, the step it is of.
#include "tests/unit/server/collective_fixture.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::Not;

using CollectiveTable = CollectiveFixture;

TEST_F(CollectiveTable, AMemberThatLeavesBeforeTheStepIsNotWaitedFor) {
  const auto ann = Reduce<float>(kAnn, {1});
  const auto bob = Reduce<float>(kBob, {2});
  EXPECT_FALSE(ann.has_come());
  Remove(kCid);
  EXPECT_THAT(Got(ann), ElementsAre(3));
  EXPECT_THAT(Got(bob), ElementsAre(3));
  EXPECT_EQ(ann.get()->header.members(), 2u);
  EXPECT_EQ(ann.get()->header.generation(), 2u);
  // The step is whole without it: its next collective too.
  Reduce<float>(kAnn, {1}, {.ordinal = 1, .step_generation = 2});
  EXPECT_THAT(Got(Reduce<float>(kBob, {1}, {.ordinal = 1, .step_generation = 2})), ElementsAre(2));
}

TEST_F(CollectiveTable, AMemberThatLeavesAfterItsContributionAbortsTheOthersAtOnce) {
  const auto ann = Reduce<float>(kAnn, {1});
  const auto cid = Reduce<float>(kCid, {3});
  Remove(kCid);
  EXPECT_TRUE(IsMemberLeft(ann.get().status()));
  EXPECT_THAT(ann.get(), HasStatus(absl::StatusCode::kAborted,
                                   AllOf(HasSubstr("rank 2 (worker 000000000000000c)"),
                                         HasSubstr("collective 0 of step 0"))));
  EXPECT_TRUE(IsNotAMember(cid.get().status()));
  // The others repeat the step.
  Reduce<float>(kBob, {2});
  EXPECT_THAT(Got(Reduce<float>(kAnn, {1})), ElementsAre(3));
}

TEST_F(CollectiveTable, AMemberThatLeavesWithinTheStepAbortsWhoWaitsAndWhoComesLater) {
  for (const uint64_t worker : {kAnn, kBob, kCid}) Reduce<float>(worker, {1});
  const auto ann = Reduce<float>(kAnn, {1}, {.ordinal = 1});
  Remove(kCid);
  EXPECT_TRUE(IsMemberLeft(ann.get().status()));
  const auto bob = Reduce<float>(kBob, {1}, {.ordinal = 1});
  EXPECT_TRUE(IsMemberLeft(bob.get().status()));
  EXPECT_THAT(bob.get().status(), HasStatus(absl::StatusCode::kAborted, HasSubstr("step 0")));
  Reduce<float>(kBob, {10});
  EXPECT_THAT(Got(Reduce<float>(kAnn, {20})), ElementsAre(30));
}

TEST_F(CollectiveTable, AMemberThatLeavesAbortsLaterPieces) {
  const Call whole{.shape = {2}};
  for (const uint64_t worker : {kAnn, kBob, kCid}) {
    v1::ReduceRequest request = Request<float>(worker, {1}, whole);
    Send<float>(request, {1});
  }
  const Call later{.shape = {2}, .piece = 1, .first = 1};
  const auto ann = Reduce<float>(kAnn, {1}, later);
  Remove(kCid);
  EXPECT_TRUE(IsMemberLeft(ann.get().status()));
  EXPECT_TRUE(IsMemberLeft(Reduce<float>(kBob, {1}, later).get().status()));
}

TEST_F(CollectiveTable, AnAnswerThatWasLostIsGivenAlsoWhenAMemberHasLeftSince) {
  Reduce<float>(kCid, {3});
  const v1::ReduceRequest request = Request<float>(kAnn, {1}, {});
  Send<float>(request, {1});
  Reduce<float>(kBob, {2});
  Remove(kCid);
  v1::ReduceRequest again = request;
  again.mutable_context()->set_generation(2);
  EXPECT_THAT(Got(Send<float>(again, {1})), ElementsAre(6));
}

TEST_F(CollectiveTable, AMemberThatJoinsFromALaterStepOnDoesNotDisturb) {
  StartSync({kAnn, kBob});
  const auto ann = Reduce<float>(kAnn, {1});
  WEIR_ASSERT_OK(server->ApplyView(view.AddMember(kCid, /*first_step=*/1).NextGeneration().Make()));
  Reduce<float>(kBob, {2});
  EXPECT_THAT(Got(ann), ElementsAre(3));
  Reduce<float>(kAnn, {1}, {.ordinal = 1, .step_generation = 2});
  EXPECT_THAT(Got(Reduce<float>(kBob, {2}, {.ordinal = 1, .step_generation = 2})), ElementsAre(3));
  EXPECT_THAT(Reduce<float>(kCid, {3}).get(),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("from step 1")));
  // A newcomer that is gone before it counted leaves the step whole.
  Remove(kCid);
  Reduce<float>(kAnn, {1}, {.ordinal = 2, .step_generation = 2});
  EXPECT_THAT(Got(Reduce<float>(kBob, {2}, {.ordinal = 2, .step_generation = 2})), ElementsAre(3));
}

TEST_F(CollectiveTable, ARepetitionIsAnsweredFromTheRecordAndNotCounted) {
  const v1::ReduceRequest request = Request<float>(kAnn, {1}, {});
  const auto first = Send<float>(request, {1});
  const auto second = Send<float>(request, {1});
  Reduce<float>(kBob, {2});
  Reduce<float>(kCid, {3});
  EXPECT_THAT(Got(first), ElementsAre(6));
  EXPECT_THAT(Got(second), ElementsAre(6));
  EXPECT_THAT(Got(Send<float>(request, {1})), ElementsAre(6));
}

TEST_F(CollectiveTable, ADuplicateThatComesAfterALaterCallOpensNothing) {
  const v1::ReduceRequest old = Request<float>(kAnn, {1}, {});
  Send<float>(old, {1});
  Reduce<float>(kBob, {1});
  Reduce<float>(kCid, {1});
  for (const uint64_t worker : {kAnn, kBob, kCid}) Reduce<float>(worker, {1}, {.ordinal = 1});
  EXPECT_THAT(Send<float>(old, {1}).get(),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("too late")));
}

TEST_F(CollectiveTable, WhoeverGivesUpAndCallsAnewIsCountedOnce) {
  const auto given_up = Reduce<float>(kAnn, {1});
  Reduce<float>(kBob, {2});
  const auto ann = Reduce<float>(kAnn, {10});
  EXPECT_THAT(given_up.get(), HasStatus(absl::StatusCode::kAborted, ::testing::_));
  Reduce<float>(kCid, {3});
  EXPECT_THAT(Got(ann), ElementsAre(15));
}

TEST_F(CollectiveTable, TheDeadlineNamesTheCollectiveAndWhoIsMissing) {
  const v1::ReduceRequest request = Request<float>(kBob, {1}, {.step = 7});
  const auto bob = Send<float>(request, {1});
  executor.Advance(absl::Seconds(31));
  EXPECT_THAT(bob.get(),
              HasStatus(absl::StatusCode::kDeadlineExceeded,
                        AllOf(HasSubstr("collective 0 of step 7, AllReduce(SUM) \"loss\" f32[1]"),
                              HasSubstr("rank 0 (worker"), HasSubstr("rank 2 (worker"),
                              Not(HasSubstr("rank 1")))));
  // The contribution has stayed: its worker only has to ask again.
  const auto again = Send<float>(request, {1});
  Reduce<float>(kAnn, {2}, {.step = 7});
  Reduce<float>(kCid, {3}, {.step = 7});
  EXPECT_THAT(Got(again), ElementsAre(6));
}

TEST_F(CollectiveTable, AnOldViewIsRefreshedAndANewOneAwaited) {
  v1::ReduceRequest request = Request<float>(kAnn, {1}, {});
  request.mutable_context()->set_generation(2);
  EXPECT_THAT(Send<float>(request, {1}).get(),
              HasStatus(absl::StatusCode::kUnavailable, ::testing::_));
  Remove(kCid);
  request.mutable_context()->set_generation(1);
  EXPECT_TRUE(IsStaleView(Send<float>(request, {1}).get().status()));
  // The step began in a generation of which this server has not heard.
  EXPECT_THAT(Reduce<float>(kAnn, {1}, {.ordinal = 1, .step_generation = 3}).get(),
              HasStatus(absl::StatusCode::kUnavailable, ::testing::_));
}

class CollectiveMemory : public CollectiveFixture {
 protected:
  static constexpr uint64_t kElements = 1000;
  // What a second job of this size would find.
  bool Fits(uint64_t bytes) {
    ViewMaker other;
    other.edit().set_run_id(++run_);
    other.AddVariable("w", bytes / sizeof(float)).AddMember(0xd);
    const bool fits = server->ApplyView(other.Make()).ok();
    server->KeepOnly({kRun});
    return fits;
  }

 private:
  uint64_t run_ = 100;
};

// A limit of 40,000 bytes. A collective of 4,000 takes 4 times as much while it is open, and its
// result alone afterwards, until all have called the next one.
TEST_F(CollectiveMemory, OfContributionsGoesWithTheSumAndOfTheResultWithTheNextCall) {
  StartSync({kAnn, kBob, kCid}, 40'000);
  ASSERT_TRUE(Fits(38'000));
  Reduce<float>(kAnn, std::vector<float>(kElements, 1));
  EXPECT_FALSE(Fits(26'000));
  EXPECT_TRUE(Fits(22'000));
  Reduce<float>(kBob, std::vector<float>(kElements, 1));
  Reduce<float>(kCid, std::vector<float>(kElements, 1));
  EXPECT_FALSE(Fits(38'000));
  EXPECT_TRUE(Fits(34'000));
  for (const uint64_t worker : {kAnn, kBob, kCid}) Reduce<float>(worker, {1}, {.ordinal = 1});
  EXPECT_TRUE(Fits(38'000));
}

TEST_F(CollectiveMemory, OfAPieceThatIsDoneEverywhereGoes) {
  StartSync({kAnn, kBob, kCid}, 40'000);
  std::map<uint64_t, v1::ReduceRequest> requests;
  for (const uint64_t worker : {kAnn, kBob, kCid}) {
    requests[worker] =
        Request<float>(worker, std::vector<float>(kElements, 1), {.shape = {kElements + 1}});
    Send<float>(requests[worker], std::vector<float>(kElements, 1));
  }
  EXPECT_FALSE(Fits(38'000));
  for (const uint64_t worker : {kAnn, kBob, kCid}) {
    v1::ReduceRequest& request = requests[worker];
    request.set_piece(1);
    request.set_first_element(kElements);
    request.set_count(1);
    request.set_pieces_done(1);
    Send<float>(request, {1});
  }
  EXPECT_TRUE(Fits(38'000));
}

TEST_F(CollectiveMemory, OfWhoHasLeftAndOfAFailedOneGoes) {
  StartSync({kAnn, kBob, kCid}, 40'000);
  Reduce<float>(kAnn, std::vector<float>(kElements, 1));
  Reduce<float>(kCid, std::vector<float>(kElements, 1));
  Remove(kCid);
  EXPECT_TRUE(Fits(38'000));
}

TEST_F(CollectiveMemory, ThatIsNotThereIsAskedForAgain) {
  StartSync({kAnn, kBob, kCid}, 10'000);
  const std::vector<float> values(kElements, 1);
  EXPECT_THAT(Reduce<float>(kAnn, values).get(),
              HasStatus(absl::StatusCode::kResourceExhausted,
                        AllOf(HasSubstr("collective 0 of step 0"), HasSubstr("10000"))));
}

TEST_F(CollectiveTable, TheEndOfTheJobEndsWhatWaits) {
  const auto ann = Reduce<float>(kAnn, {1});
  view.edit().set_state(v1::JOB_STATE_FINISHED);
  WEIR_ASSERT_OK(server->ApplyView(view.NextVersion().Make()));
  EXPECT_THAT(ann.get(), HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("finished")));
  executor.Advance(absl::Seconds(11));
  EXPECT_EQ(server->memory_bytes(), 0u);
}

TEST_F(CollectiveTable, ARollbackEndsWhatWaits) {
  const auto ann = Reduce<float>(kAnn, {1});
  view.edit().set_attempt(2);
  WEIR_ASSERT_OK(server->ApplyView(view.NextVersion().Make()));
  EXPECT_TRUE(IsStaleAttempt(ann.get().status()));
}

class CollectiveStep : public CollectiveFixture {
 protected:
  absl::Status Prepare(uint64_t step) {
    return server->PrepareStep(PrepareRequest(9, step)).status();
  }
  absl::Status Commit(const v1::JobView& with) {
    auto request = OfChange<v1::CommitStepRequest>(9);
    *request.mutable_view() = with;
    return server->CommitStep(request);
  }
};

TEST_F(CollectiveStep, BeginsWithItsFirstCollectiveSoThatNoChangeFallsIntoIt) {
  Reduce<float>(kAnn, {1}, {.step = 4});
  EXPECT_EQ(HighestBegunStep(Prepare(4)), 4u);
  WEIR_EXPECT_OK(Prepare(5));
}

TEST_F(CollectiveStep, WaitsForAChangeThatIsPreparedAtIt) {
  StartSync({kAnn, kBob});
  WEIR_ASSERT_OK(Prepare(1));
  EXPECT_THAT(Reduce<float>(kAnn, {1}, {.step = 1}).get(),
              HasStatus(absl::StatusCode::kUnavailable, HasSubstr("change 9")));
  EXPECT_THAT(Reduce<float>(kBob, {1}, {.step = 1}).get(),
              HasStatus(absl::StatusCode::kUnavailable, ::testing::_));
  // All have come as far as step 1, so that the change happens at once.
  view.AddMember(kCid, 1).NextGeneration();
  WEIR_ASSERT_OK(Commit(view.Make()));
  const auto ann = Reduce<float>(kAnn, {1}, {.step = 1});
  Reduce<float>(kBob, {2}, {.step = 1});
  EXPECT_FALSE(ann.has_come());
  Reduce<float>(kCid, {3}, {.step = 1});
  EXPECT_THAT(Got(ann), ElementsAre(6));
}

TEST_F(CollectiveTable, ATruthThatIsNeitherFailsOnAllAndIsNamed) {
  const auto ann = Reduce<uint8_t>(kAnn, {1, 0});
  const auto bob = Reduce<uint8_t>(kBob, {1, 2});
  for (const auto& answer : {ann, bob, Reduce<uint8_t>(kCid, {0, 0})}) {
    EXPECT_THAT(answer.get(), HasStatus(absl::StatusCode::kInvalidArgument,
                                        AllOf(HasSubstr("element 1"), HasSubstr("rank 1"))));
  }
}

TEST_F(CollectiveTable, AJobWithBackupWorkersHasNone) {
  view = ViewMaker();
  view.Sync().BackupWorkers(1).AddVariable("w", 4);
  for (const uint64_t member : {kAnn, kBob, kCid}) view.AddMember(member);
  MakeServer();
  StartJob(view);
  EXPECT_THAT(Reduce(kAnn, {1}).get(),
              HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("backup workers")));
}

}  // namespace
}  // namespace weir
