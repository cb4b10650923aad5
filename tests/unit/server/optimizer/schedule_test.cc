// SPDX-License-Identifier: Apache-2.0
#include "server/optimizer/schedule.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

v1::Schedule Constant(double base) {
  v1::Schedule schedule;
  schedule.set_base(base);
  return schedule;
}

TEST(Schedule, ConstantStaysTheSame) {
  EXPECT_EQ(LearningRate(Constant(0.5), 0, 1), 0.5);
  EXPECT_EQ(LearningRate(Constant(0.5), 1ull << 50, 64), 0.5);
}

TEST(Schedule, StepMultipliesAtEachBoundary) {
  v1::Schedule schedule = Constant(8);
  schedule.mutable_step()->set_factor(0.5);
  schedule.mutable_step()->add_boundary_examples(100);
  schedule.mutable_step()->add_boundary_examples(200);
  EXPECT_EQ(LearningRate(schedule, 99, 10), 8);
  EXPECT_EQ(LearningRate(schedule, 100, 10), 4);
  EXPECT_EQ(LearningRate(schedule, 199, 10), 4);
  EXPECT_EQ(LearningRate(schedule, 200, 10), 2);
  EXPECT_EQ(LearningRate(schedule, 1ull << 40, 10), 2);
}

TEST(Schedule, CosineFallsFromBaseToFinal) {
  v1::Schedule schedule = Constant(3);
  schedule.mutable_cosine()->set_total_examples(1000);
  schedule.mutable_cosine()->set_final_rate(1);
  EXPECT_EQ(LearningRate(schedule, 0, 10), 3);             // 1 + 2 * (1 + 1) / 2
  EXPECT_NEAR(LearningRate(schedule, 500, 10), 2, 1e-15);  // 1 + 2 * (1 + 0) / 2
  EXPECT_NEAR(LearningRate(schedule, 250, 10), 2 + std::sqrt(0.5), 1e-15);
  EXPECT_EQ(LearningRate(schedule, 1000, 10), 1);
  EXPECT_EQ(LearningRate(schedule, 5000, 10), 1);
}

TEST(Schedule, LinearFallsEvenly) {
  v1::Schedule schedule = Constant(3);
  schedule.mutable_linear()->set_total_examples(1000);
  schedule.mutable_linear()->set_final_rate(1);
  EXPECT_EQ(LearningRate(schedule, 0, 10), 3);
  EXPECT_EQ(LearningRate(schedule, 250, 10), 2.5);
  EXPECT_EQ(LearningRate(schedule, 1000, 10), 1);
  EXPECT_EQ(LearningRate(schedule, 1001, 10), 1);
}

TEST(Schedule, WarmUpRisesFromTheFirstUpdateOn) {
  v1::Schedule schedule = Constant(2);
  schedule.set_warm_up_examples(100);
  EXPECT_EQ(LearningRate(schedule, 0, 25), 0.5);  // 2 * (0 + 25) / 100
  EXPECT_EQ(LearningRate(schedule, 25, 25), 1);   // 2 * (25 + 25) / 100
  EXPECT_EQ(LearningRate(schedule, 75, 25), 2);
  EXPECT_EQ(LearningRate(schedule, 99, 25), 2);  // never above the schedule's own value
  EXPECT_EQ(LearningRate(schedule, 100, 25), 2);
}

TEST(Schedule, TheFallBeginsWhereWarmUpEnds) {
  v1::Schedule schedule = Constant(2);
  schedule.set_warm_up_examples(200);
  schedule.mutable_linear()->set_total_examples(1000);
  EXPECT_EQ(LearningRate(schedule, 100, 0), 1);  // 2 * 100 / 200, nothing fallen yet
  EXPECT_EQ(LearningRate(schedule, 200, 100), 2);
  EXPECT_EQ(LearningRate(schedule, 600, 100), 1);  // t = (600 - 200) / (1000 - 200)
}

TEST(Schedule, AFallThatEndsWithWarmUpIsLegal) {
  v1::Schedule schedule = Constant(2);
  schedule.set_warm_up_examples(100);
  schedule.mutable_cosine()->set_total_examples(100);
  schedule.mutable_cosine()->set_final_rate(0.5);
  WEIR_EXPECT_OK(CheckSchedule(schedule));
  EXPECT_EQ(LearningRate(schedule, 50, 0), 1);
  EXPECT_EQ(LearningRate(schedule, 100, 10), 0.5);
}

void ExpectRefused(const v1::Schedule& schedule, const std::string& named) {
  EXPECT_THAT(CheckSchedule(schedule),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr(named)));
}

TEST(CheckSchedule, NamesTheFieldThatMakesNoSense) {
  ExpectRefused(Constant(-0.1), "learning_rate.base is -0.1");
  ExpectRefused(Constant(std::numeric_limits<double>::infinity()), "learning_rate.base");
  v1::Schedule schedule = Constant(1);
  schedule.mutable_step()->set_factor(-2);
  ExpectRefused(schedule, "learning_rate.step.factor");
  schedule.mutable_step()->set_factor(0.1);
  schedule.mutable_step()->add_boundary_examples(20);
  schedule.mutable_step()->add_boundary_examples(20);
  ExpectRefused(schedule, "20 follows 20");
  schedule.mutable_cosine()->set_total_examples(0);
  ExpectRefused(schedule, "learning_rate.cosine.total_examples");
  schedule.mutable_linear()->set_total_examples(99);
  schedule.set_warm_up_examples(100);
  ExpectRefused(schedule, "learning_rate.linear.total_examples is 99");
  schedule.mutable_linear()->set_total_examples(100);
  schedule.mutable_linear()->set_final_rate(std::numeric_limits<double>::quiet_NaN());
  ExpectRefused(schedule, "learning_rate.linear.final_rate");
}

}  // namespace
}  // namespace weir
