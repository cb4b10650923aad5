// SPDX-License-Identifier: Apache-2.0
// Gradients of collectives: those of the weighted mean of the replicas' losses, as if one process
// had computed all of them.
#include <gmock/gmock.h>
#include <torch/autograd.h>
#include <torch/utils.h>

#include <limits>

#include "tests/support/replica_steps.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::TestParamInfo;

using Tensors = std::vector<torch::Tensor>;

const std::vector<double> kWeights = {3, 5, 2};
constexpr double kTotal = 10;
constexpr size_t kReplicas = 3;

torch::Tensor Leaf(std::vector<double> values) {
  return torch::tensor(values, torch::kFloat64).requires_grad_();
}

// Replica by replica; the lowest and highest of each place are on different replicas, one is tied.
Tensors Leaves() {
  return {Leaf({0.5, -1.25, 2, 1}), Leaf({1.5, 0.75, -0.5, 1}), Leaf({-2, 0.25, 1, 3})};
}

// Another function on each replica, whose second derivative is not constant.
torch::Tensor LossOf(const torch::Tensor& result, size_t replica) {
  const auto factor = torch::arange(1, result.numel() + 1, torch::kFloat64).view(result.sizes());
  return (result * factor * (1 + 0.5 * static_cast<double>(replica))).pow(3).mean();
}

torch::Tensor GradientOf(const torch::Tensor& of, const torch::Tensor& by, bool again) {
  return torch::autograd::grad({of}, {by}, {}, /*retain_graph=*/true, again)[0];
}

torch::Tensor Call(StepContext& context, ReduceOp op, const torch::Tensor& tensor) {
  if (op == ReduceOp::kGather) return context.AllGather(tensor, "x");
  if (op == ReduceOp::kBroadcast) return context.Broadcast(tensor, 1, "x");
  return context.AllReduce(tensor, op, "x");
}

// The same without collectives.
torch::Tensor Computed(ReduceOp op, const Tensors& all) {
  const torch::Tensor stacked = torch::stack(all);
  const torch::Tensor weights = torch::tensor(kWeights, torch::kFloat64).unsqueeze(1);
  switch (op) {
    case ReduceOp::kSum:
      return stacked.sum(0);
    case ReduceOp::kMean:
      return (stacked * weights).sum(0) / kTotal;
    case ReduceOp::kMin:
      return stacked.amin(0);
    case ReduceOp::kMax:
      return stacked.amax(0);
    case ReduceOp::kFirst:
      return stacked.select(0, 0);
    case ReduceOp::kBroadcast:
      return stacked.select(0, 1);
    case ReduceOp::kGather:
      return stacked;
  }
  return {};
}

class DifferentiableCollective : public ::testing::TestWithParam<ReduceOp> {
 protected:
  // What one process computes: by replica the gradient of the mean loss, and that of the mean of
  // the squares of these gradients.
  void ComputeAlone() {
    const Tensors leaves = Leaves();
    torch::Tensor loss = torch::zeros({}, torch::kFloat64);
    for (size_t i = 0; i < kReplicas; ++i) {
      loss = loss + kWeights[i] / kTotal * LossOf(Computed(GetParam(), leaves), i);
    }
    torch::Tensor penalty = torch::zeros({}, torch::kFloat64);
    for (size_t i = 0; i < kReplicas; ++i) {
      // A replica sees its gradient before the mean over replicas makes w / total of it.
      const auto gradient = GradientOf(loss, leaves[i], true) * (kTotal / kWeights[i]);
      first_.push_back(gradient.detach());
      penalty = penalty + kWeights[i] / kTotal * gradient.square().sum();
    }
    for (size_t i = 0; i < kReplicas; ++i) {
      second_.push_back(GradientOf(penalty, leaves[i], false) * (kTotal / kWeights[i]));
    }
  }

  Tensors first_, second_;
};

TEST_P(DifferentiableCollective, HasTheGradientsThatOneProcessComputesAndTheirGradients) {
  ComputeAlone();
  const Tensors leaves = Leaves();
  Tensors first(kReplicas), second(kReplicas);
  const auto ends = RunStepOfReplicas(kWeights, [&](StepContext& context, size_t i) {
    const torch::Tensor loss = LossOf(Call(context, GetParam(), leaves[i]), i);
    const torch::Tensor gradient = GradientOf(loss, leaves[i], true);
    first[i] = gradient.detach();
    second[i] = GradientOf(gradient.square().sum(), leaves[i], false);
  });
  EXPECT_THAT(ends, Each(IsOk()));
  for (size_t i = 0; i < kReplicas; ++i) {
    EXPECT_TRUE(torch::allclose(first[i], first_[i], 1e-9, 1e-12)) << first[i] << first_[i];
    EXPECT_TRUE(torch::allclose(second[i], second_[i], 1e-9, 1e-12)) << second[i] << second_[i];
  }
}

std::string NameOf(const TestParamInfo<ReduceOp>& info) {
  switch (info.param) {
    case ReduceOp::kSum:
      return "Sum";
    case ReduceOp::kMean:
      return "Mean";
    case ReduceOp::kMin:
      return "Min";
    case ReduceOp::kMax:
      return "Max";
    case ReduceOp::kFirst:
      return "First";
    case ReduceOp::kGather:
      return "Gather";
    case ReduceOp::kBroadcast:
      return "Broadcast";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(Of, DifferentiableCollective,
                         ::testing::Values(ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin,
                                           ReduceOp::kMax, ReduceOp::kFirst, ReduceOp::kGather,
                                           ReduceOp::kBroadcast),
                         NameOf);

// The loss over an empty batch is NaN, and so is its gradient.
TEST(CollectiveGradient, OfAReplicaThatCountsNothingIsNotLookedAt) {
  const Tensors leaves = {Leaf({2}), Leaf({7})};
  Tensors gradients(2);
  const auto ends = RunStepOfReplicas({4, 0}, [&](StepContext& context, size_t i) {
    const torch::Tensor result = context.AllReduce(leaves[i], ReduceOp::kSum);
    const double factor = i == 0 ? 3 : std::numeric_limits<double>::quiet_NaN();
    gradients[i] = GradientOf((result * factor).sum(), leaves[i], false);
  });
  EXPECT_THAT(ends, Each(IsOk()));
  EXPECT_EQ(gradients[0].item<double>(), 3);
  EXPECT_EQ(gradients[1].item<double>(), 0);
}

TEST(CollectiveGradient, IsNotThereForWholeNumbersAndWhereNoneIsRecorded) {
  const auto ends = RunStepOfReplicas({1, 1}, [&](StepContext& context, size_t i) {
    const auto whole = torch::tensor(static_cast<int64_t>(i));
    EXPECT_FALSE(context.AllReduce(whole, ReduceOp::kMax).requires_grad());
    const torch::NoGradGuard without;
    EXPECT_FALSE(context.AllReduce(Leaf({1}), ReduceOp::kSum).requires_grad());
  });
  EXPECT_THAT(ends, Each(IsOk()));
}

TEST(CollectiveGradient, ThatOneReplicaDoesNotComputeIsNamedToAll) {
  const auto ends = RunStepOfReplicas({1, 1}, [&](StepContext& context, size_t i) {
    const torch::Tensor leaf = Leaf({1});
    const torch::Tensor result = context.AllReduce(leaf, ReduceOp::kSum, "logits");
    if (i == 0) GradientOf(result.sum(), leaf, false);
    context.AllReduce(torch::ones({1}), ReduceOp::kSum, "hits");
  });
  const auto names_both =
      HasStatus(absl::StatusCode::kInvalidArgument,
                AllOf(HasSubstr("backward of collective 0 of step 17 logits"),
                      HasSubstr("\"hits\""), HasSubstr("replica 0"), HasSubstr("replica 1")));
  EXPECT_THAT(ends, Each(names_both));
}

// Equal shapes, so that only the names tell them apart.
TEST(CollectiveGradient, ComputedInAnotherOrderMeetsNoOther) {
  const auto ends = RunStepOfReplicas({1, 1}, [&](StepContext& context, size_t i) {
    const torch::Tensor leaf = Leaf({1});
    const torch::Tensor one = context.AllReduce(leaf, ReduceOp::kSum);
    const torch::Tensor two = context.AllReduce(leaf * 2, ReduceOp::kSum);
    GradientOf((i == 0 ? one : two).sum(), leaf, false);
    GradientOf((i == 0 ? two : one).sum(), leaf, false);
  });
  EXPECT_THAT(ends, Each(HasStatus(absl::StatusCode::kInvalidArgument,
                                   AllOf(HasSubstr("backward of collective 0"),
                                         HasSubstr("backward of collective 1")))));
}

TEST(CollectiveGradient, IsNotToBeHadBehindTheStepsEnd) {
  const torch::Tensor leaf = Leaf({1});
  torch::Tensor result;
  const auto ends = RunStepOfReplicas({1}, [&](StepContext& context, size_t) {
    result = context.AllReduce(leaf, ReduceOp::kSum, "kept");
  });
  EXPECT_THAT(ends, Each(IsOk()));
  try {
    GradientOf(result.sum(), leaf, false);
    FAIL() << "the backward pass ran";
  } catch (const StepError& error) {
    EXPECT_THAT(error.status(),
                HasStatus(absl::StatusCode::kFailedPrecondition, HasSubstr("\"kept\"")));
  }
}

}  // namespace
}  // namespace weir
