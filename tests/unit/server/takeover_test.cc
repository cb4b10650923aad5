// SPDX-License-Identifier: Apache-2.0
// A sync job whose members have all gone, and who comes after them.
#include "tests/unit/server/server_fixture.h"

namespace weir {
namespace {

constexpr uint64_t kAnn = 0xa;
constexpr uint64_t kBob = 0xb;

// One variable of two chunks.
class Takeover : public ServerFixture {
 protected:
  static constexpr uint64_t kElements = 32;

  void SetUp() override {
    view.chunk_bytes = 64;
    view.shard_bytes = 128;
    view.Sync().AddVariable("w", kElements).AddMember(kAnn);
    StartJob(view);
  }
  Answer<v1::PushReply> PushStep(const RequestMaker& maker, uint64_t sequence, uint64_t step) {
    v1::PushRequest request = maker.Push(maker.SegmentsOf(0), sequence);
    request.set_step(step);
    request.set_group_step(step);
    return Push(request, Filled(kElements, 1));
  }
  void LeaveAlone(uint64_t worker) {
    WEIR_ASSERT_OK(server->ApplyView(view.RemoveMember(worker).NextGeneration().Make()));
  }
  // A change at the boundary, prepared; what commits it.
  v1::CommitStepRequest Prepared(uint64_t boundary) {
    v1::PrepareStepRequest prepare;
    prepare.set_term(1);
    prepare.set_run_id(kRun);
    prepare.set_attempt(1);
    prepare.set_change_id(1);
    prepare.set_step(boundary);
    WEIR_EXPECT_OK(server->PrepareStep(prepare));
    v1::CommitStepRequest commit;
    commit.set_term(1);
    commit.set_run_id(kRun);
    commit.set_attempt(1);
    commit.set_change_id(1);
    commit.set_step(boundary);
    return commit;
  }
  // As the coordinator admits a worker.
  void Join(uint64_t worker, uint64_t boundary, uint64_t first_step) {
    v1::CommitStepRequest commit = Prepared(boundary);
    *commit.mutable_view() = view.AddMember(worker, first_step).NextGeneration().Make();
    WEIR_ASSERT_OK(server->CommitStep(commit));
  }

  ViewMaker view;
  RequestMaker ann{view, kAnn};
  RequestMaker bob{view, kBob};
};

TEST_F(Takeover, AStepThatTheLastMemberPushedInHalfDoesNotHoldUpItsSuccessor) {
  WEIR_ASSERT_OK(PushStep(ann, 1, 0).get());
  v1::PushRequest half = ann.Push(OneSegment(0, 0, 16), 2);
  WEIR_ASSERT_OK(Push(half, Filled(16, 1)).get());
  LeaveAlone(kAnn);
  Join(kBob, 2, 2);
  WEIR_ASSERT_OK(PushStep(bob, 1, 2).get());
  // Two steps in the second chunk; three in the first, which the push had reached.
  std::vector<float> expected = Filled(kElements, -2);
  std::fill_n(expected.begin(), 16, -3.0f);
  EXPECT_EQ(Weights(view, 0), expected);
}

// The last member's push had reached another server, so that the boundary lies behind it.
TEST_F(Takeover, AServerThatHasNotSeenTheLastStepGoesOnFromTheBoundary) {
  WEIR_ASSERT_OK(PushStep(ann, 1, 0).get());
  LeaveAlone(kAnn);
  Join(kBob, 5, 5);
  WEIR_ASSERT_OK(PushStep(bob, 1, 5).get());
  WEIR_ASSERT_OK(PushStep(bob, 2, 6).get());
  EXPECT_EQ(Weights(view, 0), Filled(kElements, -3));
}

TEST_F(Takeover, StepsThatNobodyIsLeftToRunAreSkipped) {
  WEIR_ASSERT_OK(PushStep(ann, 1, 0).get());
  Join(kBob, 2, 4);  // beside ann, who would run the steps 1 to 3
  LeaveAlone(kAnn);
  WEIR_ASSERT_OK(PushStep(bob, 1, 4).get());
  EXPECT_EQ(Weights(view, 0), Filled(kElements, -2));
}

TEST_F(Takeover, ACutIsTakenOfWhatTheLastMemberLeftInHalf) {
  WEIR_ASSERT_OK(Push(ann.Push(OneSegment(0, 0, 16), 1), Filled(16, 1)).get());
  LeaveAlone(kAnn);
  v1::CommitStepRequest commit = Prepared(1);
  commit.set_cut(7);
  WEIR_ASSERT_OK(server->CommitStep(commit));
  const auto store = server->Store(kRun);
  WEIR_ASSERT_OK(store);
  Answer<StoreSnapshot> cut;
  (*store)->TakeCut({.cut = 7, .marks = {}}, Soon(), cut.Callback());
  WEIR_ASSERT_OK(cut.get());
  EXPECT_EQ(cut.get()->shards.size(), 1u);
}

}  // namespace
}  // namespace weir
