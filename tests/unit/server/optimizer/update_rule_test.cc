// SPDX-License-Identifier: Apache-2.0
// One weight, a step or two, numbers worked out by hand from LibTorch's formulas.
#include "server/optimizer/update_rule.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/server/optimizer/optimizers.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A chunk of one f64 weight, which starts at 1, and its rule.
class OneWeight {
 public:
  explicit OneWeight(const v1::Optimizer& optimizer)
      : rule_(*UpdateRule::Create(optimizer, v1::DTYPE_F64)), slots_(rule_->num_slots() + 1) {
    rule_->InitialiseSlots(Bytes(slots_), sizeof(double), 1);
  }

  // The weight behind one more update.
  double Step(double gradient, double rate, double gradient_scale = 1) {
    const UpdateContext context = {
        .learning_rate = rate, .updates_before = updates_++, .gradient_scale = gradient_scale};
    rule_->Apply(context, reinterpret_cast<const std::byte*>(&gradient), 0, 1,
                 {Bytes(weight_), Bytes(weight_), Bytes(slots_), Bytes(slots_), sizeof(double)});
    return weight_[0];
  }

  double slot(size_t k) const { return slots_[k]; }
  size_t num_slots() const { return rule_->num_slots(); }

 private:
  static std::byte* Bytes(std::vector<double>& values) {
    return reinterpret_cast<std::byte*>(values.data());
  }

  std::unique_ptr<UpdateRule> rule_;
  std::vector<double> weight_ = {1.0};
  std::vector<double> slots_;
  uint64_t updates_ = 0;
};

constexpr double kNear = 1e-14;

TEST(SgdRule, MovesAgainstTheGradientByTheRate) {
  OneWeight weight(Sgd());
  EXPECT_EQ(weight.num_slots(), 0u);
  EXPECT_NEAR(weight.Step(0.5, 0.1), 0.95, kNear);    // 1 - 0.1 * 0.5
  EXPECT_NEAR(weight.Step(-1.0, 0.01), 0.96, kNear);  // 0.95 + 0.01 * 1
}

TEST(SgdRule, ScalesTheGradientFirst) {
  v1::Optimizer optimizer = Sgd();
  optimizer.mutable_sgd()->set_weight_decay(1);
  OneWeight weight(optimizer);
  EXPECT_NEAR(weight.Step(2, 0.1, 0.25), 0.85, kNear);  // 1 - 0.1 * (2 / 4 + 1 * 1)
}

TEST(SgdRule, FirstStepOfMomentumIsNotDampened) {
  v1::Optimizer optimizer = Sgd();
  optimizer.mutable_sgd()->set_momentum(0.9);
  optimizer.mutable_sgd()->set_dampening(0.5);
  optimizer.mutable_sgd()->set_weight_decay(0.1);
  OneWeight weight(optimizer);
  // g = 0.5 + 0.1 * 1 = 0.6; buffer = 0.6; w = 1 - 0.1 * 0.6
  EXPECT_NEAR(weight.Step(0.5, 0.1), 0.94, kNear);
  EXPECT_NEAR(weight.slot(0), 0.6, kNear);
  // g = 0.5 + 0.1 * 0.94 = 0.594; buffer = 0.9 * 0.6 + 0.5 * 0.594 = 0.837; w = 0.94 - 0.0837
  EXPECT_NEAR(weight.Step(0.5, 0.1), 0.8563, kNear);
  EXPECT_NEAR(weight.slot(0), 0.837, kNear);
}

TEST(SgdRule, NesterovLooksAhead) {
  v1::Optimizer optimizer = Sgd();
  optimizer.mutable_sgd()->set_momentum(0.9);
  optimizer.mutable_sgd()->set_nesterov(true);
  OneWeight weight(optimizer);
  // buffer = 0.5; direction = 0.5 + 0.9 * 0.5 = 0.95
  EXPECT_NEAR(weight.Step(0.5, 0.1), 0.905, kNear);
  // buffer = 0.45 + 0.5 = 0.95; direction = 0.5 + 0.9 * 0.95 = 1.355
  EXPECT_NEAR(weight.Step(0.5, 0.1), 0.7695, kNear);
}

TEST(AdagradRule, DividesByTheRootOfTheSumOfSquares) {
  v1::Optimizer optimizer = Adagrad();
  optimizer.mutable_adagrad()->set_initial_accumulator_value(0.11);
  optimizer.mutable_adagrad()->set_lr_decay(0.25);
  optimizer.mutable_adagrad()->set_eps(0.4);
  OneWeight weight(optimizer);
  EXPECT_EQ(weight.slot(0), 0.11);
  // sum = 0.11 + 0.25 = 0.36; w = 1 - 0.1 * 0.5 / (0.6 + 0.4)
  EXPECT_NEAR(weight.Step(0.5, 0.1), 0.95, kNear);
  // rate = 0.1 / (1 + 1 * 0.25) = 0.08; sum = 0.36 + 0.64 = 1; w = 0.95 - 0.08 * 0.8 / 1.4
  EXPECT_NEAR(weight.Step(0.8, 0.1), 0.95 - 0.064 / 1.4, kNear);
  EXPECT_NEAR(weight.slot(0), 1.0, kNear);
}

TEST(AdagradRule, AddsWeightDecayToTheGradient) {
  v1::Optimizer optimizer = Adagrad();
  optimizer.mutable_adagrad()->set_weight_decay(0.25);
  optimizer.mutable_adagrad()->set_eps(0.5);
  OneWeight weight(optimizer);
  // g = 0.25 + 0.25 * 1 = 0.5; sum = 0.25; w = 1 - 0.1 * 0.5 / (0.5 + 0.5)
  EXPECT_NEAR(weight.Step(0.25, 0.1), 0.95, kNear);
}

TEST(RmsPropRule, DividesByTheRootOfTheMeanSquare) {
  v1::Optimizer optimizer = RmsProp();
  optimizer.mutable_rmsprop()->set_alpha(0.75);
  optimizer.mutable_rmsprop()->set_eps(0.5);
  OneWeight weight(optimizer);
  EXPECT_EQ(weight.num_slots(), 1u);
  EXPECT_NEAR(weight.Step(2, 0.3), 0.6, kNear);  // square = 0.25 * 4 = 1; w = 1 - 0.3 * 2 / 1.5
  EXPECT_NEAR(weight.Step(1, 0.3), 0.4, kNear);  // square = 0.75 + 0.25; w = 0.6 - 0.3 / 1.5
}

TEST(RmsPropRule, CenteredSubtractsTheSquaredMean) {
  v1::Optimizer optimizer = RmsProp();
  optimizer.mutable_rmsprop()->set_alpha(0.5);
  optimizer.mutable_rmsprop()->set_eps(0.5);
  optimizer.mutable_rmsprop()->set_centered(true);
  OneWeight weight(optimizer);
  EXPECT_EQ(weight.num_slots(), 2u);
  // square = 0.5 * 4 = 2; mean = 1; root = sqrt(2 - 1) + 0.5 = 1.5
  EXPECT_NEAR(weight.Step(2, 0.3), 0.6, kNear);
  // square = 1 + 0.5 * 2.25 = 2.125; mean = 0.5 + 0.75 = 1.25; root = sqrt(0.5625) + 0.5 = 1.25
  EXPECT_NEAR(weight.Step(1.5, 0.3), 0.24, kNear);
  EXPECT_NEAR(weight.slot(0), 2.125, kNear);
  EXPECT_NEAR(weight.slot(1), 1.25, kNear);
}

TEST(RmsPropRule, MomentumAccumulatesTheScaledGradient) {
  v1::Optimizer optimizer = RmsProp();
  optimizer.mutable_rmsprop()->set_alpha(0.75);
  optimizer.mutable_rmsprop()->set_eps(0.5);
  optimizer.mutable_rmsprop()->set_momentum(0.9);
  OneWeight weight(optimizer);
  EXPECT_EQ(weight.num_slots(), 2u);
  EXPECT_NEAR(weight.Step(2, 0.3), 0.6, kNear);  // buffer = 2 / 1.5; w = 1 - 0.3 * 4 / 3
  // buffer = 0.9 * 4 / 3 + 1 / 1.5 = 28 / 15; w = 0.6 - 0.3 * 28 / 15
  EXPECT_NEAR(weight.Step(1, 0.3), 0.04, kNear);
}

// beta1 = 1/2, beta2 = 3/4, eps = 1/2.
v1::Adam RoundAdam() {
  v1::Adam options;
  options.set_beta1(0.5);
  options.set_beta2(0.75);
  options.set_eps(0.5);
  return options;
}
// sqrt(second moment of 1 / (1 - (3/4)^2)) + 1/2: the divisor of the second step below.
const double kSecondRoot = 1 / std::sqrt(0.4375) + 0.5;

TEST(AdamRule, CorrectsTheBiasOfBothMoments) {
  v1::Optimizer optimizer = Adam();
  *optimizer.mutable_adam() = RoundAdam();
  OneWeight weight(optimizer);
  EXPECT_EQ(weight.num_slots(), 2u);
  // first = 1, second = 1; step size = 0.1 / 0.5; root = 1 / 0.5 + 0.5; w = 1 - 0.2 / 2.5
  EXPECT_NEAR(weight.Step(2, 0.1), 0.92, kNear);
  // first = 0.5 + 0.5, second = 0.75 + 0.25; step size = 0.1 / (1 - 0.25)
  EXPECT_NEAR(weight.Step(1, 0.1), 0.92 - 0.1 / 0.75 / kSecondRoot, kNear);
}

TEST(AdamRule, AmsgradKeepsTheLargestSecondMoment) {
  v1::Optimizer optimizer = Adam();
  *optimizer.mutable_adam() = RoundAdam();
  optimizer.mutable_adam()->set_amsgrad(true);
  OneWeight weight(optimizer);
  EXPECT_EQ(weight.num_slots(), 3u);
  EXPECT_NEAR(weight.Step(2, 0.1), 0.92, kNear);
  // first = 0.5, second = 0.75, but the largest stays 1
  EXPECT_NEAR(weight.Step(0, 0.1), 0.92 - 0.1 / 0.75 * 0.5 / kSecondRoot, kNear);
  EXPECT_EQ(weight.slot(1), 0.75);
  EXPECT_EQ(weight.slot(2), 1);
}

TEST(AdamRule, AddsWeightDecayToTheGradient) {
  v1::Optimizer optimizer = Adam();
  *optimizer.mutable_adam() = RoundAdam();
  optimizer.mutable_adam()->set_weight_decay(0.5);
  OneWeight weight(optimizer);
  EXPECT_NEAR(weight.Step(1.5, 0.1), 0.92, kNear);  // g = 1.5 + 0.5 * 1 = 2, as above
}

TEST(AdamWRule, DecaysTheWeightApartFromTheGradient) {
  v1::Optimizer optimizer = AdamW();
  *optimizer.mutable_adamw() = RoundAdam();
  optimizer.mutable_adamw()->set_weight_decay(0.1);
  OneWeight weight(optimizer);
  EXPECT_NEAR(weight.Step(2, 0.1), 0.99 - 0.08, kNear);  // 1 * (1 - 0.1 * 0.1), then as Adam
  EXPECT_NEAR(weight.Step(1, 0.1), 0.91 * 0.99 - 0.1 / 0.75 / kSecondRoot, kNear);
}

TEST(AdamRule, AZeroGradientBeforeAnyOtherChangesNothing) {
  OneWeight weight(Adam());
  EXPECT_EQ(weight.Step(0, 0.1), 1.0);
}

TEST(AverageRule, MovesTowardsWhatIsPushed) {
  v1::Optimizer optimizer;
  optimizer.mutable_average()->set_decay(0.9);
  OneWeight value(optimizer);
  EXPECT_EQ(value.num_slots(), 0u);
  EXPECT_NEAR(value.Step(2, /*rate=*/5), 1.1, kNear);         // 0.9 * 1 + 0.1 * 2
  EXPECT_NEAR(value.Step(6, 5, /*scale=*/0.5), 1.29, kNear);  // 0.9 * 1.1 + 0.1 * 6 / 2
}

TEST(AverageRule, WithoutDecayIsWhatIsPushedBitForBit) {
  v1::Optimizer optimizer;
  optimizer.mutable_average();
  OneWeight value(optimizer);
  for (const double pushed : {0.1, -0.0, std::numeric_limits<double>::denorm_min()}) {
    const double now = value.Step(pushed, 5);
    EXPECT_EQ(std::memcmp(&now, &pushed, sizeof(now)), 0) << pushed;
  }
  EXPECT_EQ(value.Step(6, 5, /*scale=*/0.5), 3);
}

// ---- what is refused ----

void ExpectRefused(const v1::Optimizer& optimizer, const std::string& named) {
  EXPECT_THAT(UpdateRule::Create(optimizer, v1::DTYPE_F32),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr(named)));
}

TEST(UpdateRule, RefusesAnOptionOutOfItsRangeByName) {
  v1::Optimizer optimizer = Sgd();
  optimizer.mutable_sgd()->set_momentum(-0.9);
  ExpectRefused(optimizer, "sgd.momentum is -0.9");
  optimizer = Sgd();
  optimizer.mutable_sgd()->set_nesterov(true);
  ExpectRefused(optimizer, "sgd.nesterov");
  optimizer = Adagrad();
  optimizer.mutable_adagrad()->set_lr_decay(-1);
  ExpectRefused(optimizer, "adagrad.lr_decay");
  optimizer = RmsProp();
  optimizer.mutable_rmsprop()->set_alpha(1);
  ExpectRefused(optimizer, "rmsprop.alpha");
  optimizer = Adam();
  optimizer.mutable_adam()->set_beta2(1);
  ExpectRefused(optimizer, "adam.beta2");
  optimizer = AdamW();
  optimizer.mutable_adamw()->set_weight_decay(std::numeric_limits<double>::quiet_NaN());
  ExpectRefused(optimizer, "adamw.weight_decay");
  optimizer.mutable_average()->set_decay(1);
  ExpectRefused(optimizer, "average.decay");
  optimizer = AdamW();
  optimizer.mutable_learning_rate()->set_base(-1);
  ExpectRefused(optimizer, "learning_rate.base");
}

TEST(UpdateRule, RefusesAnEpsThatLeavesADivisionByZero) {
  v1::Optimizer optimizer = Adam();
  optimizer.mutable_adam()->set_eps(0);
  ExpectRefused(optimizer, "adam.eps");
  optimizer.mutable_adam()->set_eps(1e-60);  // not zero, but zero as f32
  ExpectRefused(optimizer, "adam.eps");
  WEIR_EXPECT_OK(UpdateRule::Create(optimizer, v1::DTYPE_F64));
}

TEST(UpdateRule, RefusesAnOptimizerOfNoKind) {
  ExpectRefused({}, "sgd, adagrad, rmsprop");
}

TEST(UpdateRule, RefusesElementsThatAreNotFloatingPoint) {
  for (const v1::DType dtype :
       {v1::DTYPE_I32, v1::DTYPE_I64, v1::DTYPE_BOOL, v1::DTYPE_UNSPECIFIED}) {
    EXPECT_THAT(UpdateRule::Create(Sgd(), dtype),
                HasStatus(absl::StatusCode::kInvalidArgument,
                          AllOf(HasSubstr("f32 or f64"), HasSubstr(v1::DType_Name(dtype)))));
  }
}

}  // namespace
}  // namespace weir
