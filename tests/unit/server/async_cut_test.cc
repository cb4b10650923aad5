// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/server/workers_fixture.h"

namespace weir {
namespace {

class AsyncCut : public WorkersFixture {
 protected:
  void SetUp() override {
    view.AddVariable("w", 100).AddMember(kAnn).AddMember(kBob);
    StartJob(view);
  }
  v1::PushRequest Marked(const RequestMaker& maker, uint64_t sequence, uint64_t cut,
                         uint64_t cut_sequence) {
    v1::PushRequest request = maker.Push(maker.SegmentsOf(0), sequence);
    request.set_cut(cut);
    request.set_cut_sequence(cut_sequence);
    return request;
  }
  Answer<StoreSnapshot> TakeCut(uint64_t cut, uint64_t ann_mark, uint64_t bob_mark) {
    CutRequest request{.cut = cut, .marks = {}};
    for (const auto& [worker, sequence] :
         {std::make_pair(kAnn, ann_mark), std::make_pair(kBob, bob_mark)}) {
      v1::CutMark& mark = request.marks.emplace_back();
      mark.set_worker(worker);
      mark.set_group(1);
      mark.set_last_sequence(sequence);
    }
    Answer<StoreSnapshot> answer;
    (*server->Store(kRun))->TakeCut(request, Soon(), answer.Callback());
    return answer;
  }
};

float FirstOf(const ChunkSnapshot& chunk) {
  float first = 0;
  std::memcpy(&first, chunk.weights.data(), sizeof(first));
  return first;
}

TEST_F(AsyncCut, HoldsEachWorkersPushesOfAPrefixOfItsSequence) {
  WEIR_ASSERT_OK(Push(ann.Push(ann.SegmentsOf(0), 1), Filled(100, 1)).get());
  // Ann has marked after 1, Bob after 2, of which one chunk is still on its way.
  const auto after = Push(Marked(ann, 2, 5, 1), Filled(100, 100));
  WEIR_ASSERT_OK(Push(bob.Push(bob.SegmentsOf(0), 1), Filled(100, 10)).get());
  WEIR_ASSERT_OK(Push(bob.Push(OneSegment(0, 0, 64), 2), Filled(64, 10)).get());
  EXPECT_FALSE(after.has_come());
  const auto cut = TakeCut(5, 1, 2);
  EXPECT_FALSE(cut.has_come());
  const auto late = Push(Marked(bob, 3, 5, 2), Filled(100, 1000));
  WEIR_ASSERT_OK(Push(bob.Push(OneSegment(1, 0, 36), 2), Filled(36, 10)).get());
  WEIR_ASSERT_OK(cut.get());
  WEIR_ASSERT_OK(after.get());
  WEIR_ASSERT_OK(late.get());
  for (const ShardSnapshot& shard : cut.get()->shards) {
    for (const ChunkSnapshot& chunk : shard.chunks) EXPECT_EQ(FirstOf(chunk), -21);
  }
  EXPECT_EQ(cut.get()->step, 3u);
  EXPECT_EQ(cut.get()->marks.size(), 2u);
  EXPECT_EQ(Weights(view, 0), Filled(100, -1121));
}

TEST_F(AsyncCut, AfterItPushesThatCarryItsMarkGoOn) {
  WEIR_ASSERT_OK(TakeCut(5, 0, 0).get());
  WEIR_ASSERT_OK(Push(Marked(ann, 1, 5, 0), Filled(100, 1)).get());
}

TEST_F(AsyncCut, UnmarkedPushesBeyondTheMarksWaitToo) {
  const auto cut = TakeCut(5, 0, 1);
  const auto later = Push(ann.Push(ann.SegmentsOf(0), 1), Filled(100, 1));
  EXPECT_FALSE(later.has_come());
  WEIR_ASSERT_OK(Push(bob.Push(bob.SegmentsOf(0), 1), Filled(100, 10)).get());
  WEIR_ASSERT_OK(cut.get());
  WEIR_ASSERT_OK(later.get());
  EXPECT_EQ(FirstOf(cut.get()->shards[0].chunks[0]), -10);
}

TEST_F(AsyncCut, ThatIsNotCompleteInTwoSecondsIsAbandonedAndHeldPushesGoOn) {
  const auto cut = TakeCut(5, 0, 1);
  const auto held = Push(Marked(ann, 1, 5, 0), Filled(100, 1));
  executor.Advance(absl::Milliseconds(2100));
  EXPECT_THAT(cut.get(), HasStatus(absl::StatusCode::kAborted, HasSubstr("cut 5")));
  WEIR_ASSERT_OK(held.get());
  EXPECT_THAT(TakeCut(5, 0, 1).get(), HasStatus(absl::StatusCode::kAborted, ::testing::_));
  WEIR_ASSERT_OK(TakeCut(6, 1, 0).get());
}

TEST_F(AsyncCut, ThatNobodyComesToTakeHoldsPushesForTwoSeconds) {
  const auto held = Push(Marked(ann, 1, 5, 0), Filled(100, 1));
  executor.Advance(absl::Milliseconds(1900));
  EXPECT_FALSE(held.has_come());
  executor.Advance(absl::Milliseconds(200));
  WEIR_ASSERT_OK(held.get());
}

TEST_F(AsyncCut, DoesNotWaitForTheDead) {
  const auto cut = TakeCut(5, 0, 1);
  EXPECT_FALSE(cut.has_come());
  WEIR_ASSERT_OK(server->ApplyView(view.RemoveMember(kBob).NextGeneration().Make()));
  WEIR_ASSERT_OK(cut.get());
}

TEST_F(AsyncCut, IsRefusedWhereAPushBeyondItsMarkIsAppliedAlready) {
  WEIR_ASSERT_OK(Push(ann.Push(ann.SegmentsOf(0), 1), Filled(100, 1)).get());
  EXPECT_THAT(TakeCut(5, 0, 0).get(), HasStatus(absl::StatusCode::kAborted, ::testing::_));
}

TEST_F(AsyncCut, IsRefusedWhereTheMemoryLimitLeavesNoRoomForOneMoreState) {
  server = nullptr;
  MakeServer(/*memory_limit_bytes=*/700);  // the job needs 400
  ViewMaker own = view;
  StartJob(own);
  EXPECT_THAT(TakeCut(5, 0, 0).get(),
              HasStatus(absl::StatusCode::kResourceExhausted, HasSubstr("400 bytes")));
}

TEST_F(AsyncCut, RestoresIntoAnEqualStore) {
  ViewMaker adam = view;
  adam.edit().set_run_id(8);
  v1::Adam& options = *adam.optimizer().mutable_adam();
  options.set_beta1(0.9);
  options.set_beta2(0.999);
  options.set_eps(1e-8);
  StartJob(adam);
  const RequestMaker maker(adam, kAnn);
  const auto push = [&](uint64_t sequence) {
    WEIR_ASSERT_OK(Push(maker.Push(maker.SegmentsOf(0), sequence), Filled(100, 0.3f)).get());
  };
  push(1);
  push(2);
  Answer<StoreSnapshot> cut;
  (*server->Store(8))->TakeCut({.cut = 1, .marks = {}}, Soon(), cut.Callback());
  // Without marks nobody is waited for.
  WEIR_ASSERT_OK(cut.get());
  push(3);
  const std::vector<float> uninterrupted = Weights(adam, 0);

  adam.edit().set_attempt(2);
  adam.edit().set_state(v1::JOB_STATE_RESTORING);
  WEIR_ASSERT_OK(server->ApplyView(adam.NextVersion().Make()));
  const auto store = *server->Store(8);
  for (const ShardSnapshot& shard : cut.get()->shards) {
    for (size_t c = 0; c < shard.chunks.size(); ++c) {
      const ChunkSnapshot& chunk = shard.chunks[c];
      ASSERT_EQ(chunk.num_slots, 2u);
      std::vector<std::byte> slots;
      for (uint32_t k = 0; k < chunk.num_slots; ++k) {
        const std::byte* const slot = chunk.slots.data() + k * chunk.slot_stride_bytes;
        slots.insert(slots.end(), slot, slot + chunk.weights.size());
      }
      WEIR_ASSERT_OK(store->LoadChunk(shard.shard.id, c,
                                      {.version = chunk.version,
                                       .examples = chunk.examples,
                                       .weights = {chunk.weights.data(), chunk.weights.size()},
                                       .slots = slots}));
    }
  }
  EXPECT_TRUE(IsNotInitialised(Pull(maker.Pull(maker.SegmentsOf(0))).get().status()));
  WEIR_ASSERT_OK(store->FinishRestore(cut.get()->group_steps));
  adam.edit().set_state(v1::JOB_STATE_RUNNING);
  WEIR_ASSERT_OK(server->ApplyView(adam.NextVersion().Make()));
  push(1);
  EXPECT_EQ(Weights(adam, 0), uninterrupted);
}

TEST_F(AsyncCut, LoadsOnlyWhatFits) {
  const auto store = *server->Store(kRun);
  const std::vector<std::byte> bytes(64);
  const SavedChunk saved{.version = 1, .examples = 1, .weights = bytes, .slots = {}};
  EXPECT_THAT(store->LoadChunk(ShardId{9}, 0, saved),
              HasStatus(absl::StatusCode::kNotFound, HasSubstr("shard 9")));
  EXPECT_THAT(store->LoadChunk(ShardId{0}, 4, saved),
              HasStatus(absl::StatusCode::kNotFound, HasSubstr("chunk 4")));
  EXPECT_THAT(store->LoadChunk(ShardId{1}, 2, saved),
              HasStatus(absl::StatusCode::kDataLoss, HasSubstr("'w'")));
}

}  // namespace
}  // namespace weir
