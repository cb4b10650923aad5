// SPDX-License-Identifier: Apache-2.0
#include "server/step_accumulator.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/server/server_fixture.h"

namespace weir {
namespace {

class StepAccumulatorTest : public ::testing::Test {
 protected:
  StepAccumulator Make(bool deterministic) {
    return StepAccumulator(
        {.pool = &pool_, .dtype = v1::DTYPE_F32, .elements = 2, .deterministic = deterministic});
  }
  static void Add(StepAccumulator& accumulator, uint32_t rank, double weight,
                  const std::vector<float>& values) {
    const Payload payload = PayloadOf(values);
    WEIR_ASSERT_OK(accumulator.Add(
        {.member = {.rank = rank, .worker = static_cast<WorkerId>(rank + 1), .first_step = 0},
         .weight = weight,
         .examples = 10,
         .present = !values.empty()},
        {.payload = values.empty() ? nullptr : &payload, .offset = 0}));
  }
  static std::vector<float> Values(const StepAccumulator::Sum& sum) {
    std::vector<float> values(2);
    std::memcpy(values.data(), sum.values.data(), 8);
    return values;
  }
  FakeClock clock_;
  ManualExecutor executor_{clock_};
  BufferPool pool_{{.clock = &clock_, .executor = &executor_}};
};

TEST_F(StepAccumulatorTest, SumsWeightedValuesAndGivesTheScaleOfTheirMean) {
  for (const bool deterministic : {false, true}) {
    StepAccumulator accumulator = Make(deterministic);
    Add(accumulator, 1, 3, {1, 2});
    Add(accumulator, 0, 1, {5, 6});
    Add(accumulator, 2, 4, {});
    const StepAccumulator::Sum sum = accumulator.Take();
    EXPECT_EQ(Values(sum), (std::vector<float>{8, 12}));
    EXPECT_EQ(sum.scale, 1.0 / 8);
    EXPECT_EQ(sum.examples, 30u);
    EXPECT_TRUE(accumulator.empty());
  }
}

TEST_F(StepAccumulatorTest, ASoleContributionComesAsItWasSent) {
  for (const bool deterministic : {false, true}) {
    StepAccumulator accumulator = Make(deterministic);
    Add(accumulator, 0, 0.3, {0.1f, 0.7f});
    const StepAccumulator::Sum sum = accumulator.Take();
    EXPECT_EQ(Values(sum), (std::vector<float>{0.1f, 0.7f}));
    EXPECT_EQ(sum.scale, 1);
  }
}

TEST_F(StepAccumulatorTest, BesideAbsentOnesOfWeightItIsScaledByItsShare) {
  StepAccumulator accumulator = Make(false);
  Add(accumulator, 0, 1, {4, 8});
  Add(accumulator, 1, 3, {});
  const StepAccumulator::Sum sum = accumulator.Take();
  EXPECT_EQ(Values(sum), (std::vector<float>{4, 8}));
  EXPECT_EQ(sum.scale, 0.25);
}

// Ranks 0, 1 and 2 are workers 1, 2 and 3; the last counts from step 7 on.
MemberSet ThreeMembers() {
  v1::JobView view;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    v1::Member& member = *view.add_members();
    member.set_rank(rank);
    member.set_worker(rank + 1);
    member.set_first_step(rank == 2 ? 7 : 0);
  }
  return MemberSet(view.members());
}

TEST_F(StepAccumulatorTest, WaitsOnlyForTheLastMemberOfTheStepThatHasNotContributed) {
  const MemberSet members = ThreeMembers();
  StepAccumulator accumulator = Make(false);
  EXPECT_FALSE(accumulator.WaitsOnlyFor(WorkerId{2}, members, 6));
  Add(accumulator, 0, 1, {1, 1});
  EXPECT_TRUE(accumulator.WaitsOnlyFor(WorkerId{2}, members, 6));
  EXPECT_FALSE(accumulator.WaitsOnlyFor(WorkerId{1}, members, 6));
  EXPECT_FALSE(accumulator.WaitsOnlyFor(WorkerId{2}, members, 7));
  Add(accumulator, 1, 1, {1, 1});
  EXPECT_FALSE(accumulator.WaitsOnlyFor(WorkerId{2}, members, 6));
}

TEST_F(StepAccumulatorTest, IsCompleteWhenMembersOfTheStepHaveContributedWhoeverElseHas) {
  const MemberSet members = ThreeMembers();
  StepAccumulator accumulator = Make(false);
  EXPECT_FALSE(accumulator.IsComplete(members, 0));
  Add(accumulator, 8, 1, {1, 1});  // has left since
  Add(accumulator, 0, 1, {1, 1});
  EXPECT_FALSE(accumulator.IsComplete(members, 0));
  ASSERT_EQ(accumulator.Missing(members, 0).size(), 1u);
  EXPECT_EQ(accumulator.Missing(members, 0)[0].rank, 1u);
  Add(accumulator, 1, 1, {1, 1});
  EXPECT_TRUE(accumulator.IsComplete(members, 6));
  EXPECT_FALSE(accumulator.IsComplete(members, 7));
}

}  // namespace
}  // namespace weir
