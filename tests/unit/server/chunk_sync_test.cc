// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "server/chunk.h"
#include "tests/unit/server/workers_fixture.h"

namespace weir {
namespace {

// One chunk of a sync job of two, over which ann's pushes come. They bring no values.
class ChunkSync : public WorkersFixture {
 protected:
  ChunkSync() {
    view.Sync().AddMember(kAnn).AddMember(kBob);
    members_.Set(std::make_shared<const MemberSet>(view.view().members()));
  }

  // Ann's first push, which waits for bob's. The same each time.
  std::shared_ptr<ParkedReply> Contribute() {
    const PushHeader push{.worker = WorkerId{kAnn}, .group = 1, .sequence = Sequence{1}};
    auto reply = std::make_shared<ParkedReply>(++last_id_, push, std::vector<SegmentTarget>(),
                                               [](const absl::StatusOr<PullResult>&) {});
    ClosedChunks closed;
    EXPECT_THAT(tracker_.Admit(push.sequence, /*key=*/1), IsOk());
    EXPECT_THAT(chunk_.Contribute(push, ChunkValues(), tracker_, reply, closed), IsOk());
    EXPECT_EQ(closed.count, 0u);
    return reply;
  }

  BufferPool pool_{{.clock = &clock, .executor = &executor}};
  CurrentMembers members_;
  const VariablePlan variable_{
      .name = "w", .dtype = v1::DTYPE_F32, .element_bytes = 4, .elements = 4, .group = 1};
  const ChunkTraits traits_{.variable = &variable_, .pool = &pool_, .members = &members_};
  Chunk chunk_{traits_, /*elements=*/4, /*index_in_group=*/0};
  SequenceTracker tracker_{/*chunks=*/1};
  uint64_t last_id_ = 0;
};

TEST_F(ChunkSync, RepliesThatAreAnsweredDoNotPileUpWhileAPushIsRepeated) {
  std::shared_ptr<ParkedReply> answered = Contribute();
  const std::weak_ptr<ParkedReply> first = answered;
  const std::weak_ptr<ParkedReply> second = Contribute();
  (void)answered->TakeDone();
  answered.reset();
  EXPECT_FALSE(first.expired()) << "the chunk has it";
  const std::weak_ptr<ParkedReply> third = Contribute();
  EXPECT_TRUE(first.expired());
  EXPECT_FALSE(second.expired()) << "it waits";
  EXPECT_FALSE(third.expired());
}

}  // namespace
}  // namespace weir
