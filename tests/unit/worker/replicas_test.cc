// SPDX-License-Identifier: Apache-2.0
// Several replicas in one process: what they train together, share, and refuse.
#include <torch/nn/functional/dropout.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/unit/worker/replicas_fixture.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(a[i] - b[i], 2);
    norm += std::pow(b[i], 2);
  }
  return std::sqrt(difference / norm);
}

// Several steps on parts of these sizes.
std::vector<float> TrainedOn(const std::vector<uint64_t>& sizes) {
  auto runner =
      Create(LeastSquares(), RunnerOptions{static_cast<uint32_t>(sizes.size()), false, 60000});
  EXPECT_THAT(runner, IsOk());
  Descent descent;
  for (uint64_t step = 0; step < 10; ++step) {
    WEIR_EXPECT_OK(Train(**runner, Parts(sizes), descent, step));
  }
  return ValuesOf(**runner, 0);
}

TEST(Replicas, TrainWhatOneTrainsOnTheJoinedBatch) {
  const std::vector<float> joined = TrainedOn({8});
  EXPECT_LE(Distance(TrainedOn({2, 2, 2, 2}), joined), 1e-5);
  EXPECT_LE(Distance(TrainedOn({3, 5}), joined), 1e-5);
  EXPECT_LE(Distance(TrainedOn({5, 3, 0}), joined), 1e-5);
  EXPECT_GT(Distance(TrainedOn({7}), joined), 1e-3);  // the comparison can fail
}

TEST(Replicas, PushOnceForAllWithTheWeightOfAll) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create(LeastSquares(), {2}));
  Descent descent;
  WEIR_ASSERT_OK(Train(*runner, Parts({3, 5}), descent));
  EXPECT_THAT(descent.weights_of_pushes, ElementsAre(8));
}

TEST(Replicas, ShareTheirWeightsAndOwnTheirGradientsAndTheirState) {
  Seen weights;
  Seen gradients;
  const Step step = [&](StepContext& context, torch::nn::Linear& net, Optimizer& sgd,
                        const Nest& batch) {
    net(batch["image"].flatten(1)).sum().backward();
    weights.tensors[context.replica_id()] = net->weight.detach();
    gradients.tensors[context.replica_id()] = net->weight.grad();
    sgd.Step();
    return Nest();
  };
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create(step, {2}));
  Descent descent;
  WEIR_ASSERT_OK(Train(*runner, Parts({4, 4}), descent));
  EXPECT_EQ(weights.tensors[4].data_ptr(), weights.tensors[5].data_ptr());
  EXPECT_NE(gradients.tensors[4].data_ptr(), gradients.tensors[5].data_ptr());
  EXPECT_FALSE(gradients.tensors[4].equal(gradients.tensors[5]));
}

// Momentum 0.1, from 0: running mean = 0.1 * mean of the replica's batch; both have run once.
TEST(Replicas, StateIsAggregatedWhenItIsReadAndPutBackAfterwards) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create(LeastSquares(), {2}));
  Descent descent;
  WEIR_ASSERT_OK(Train(*runner, Parts({4, 4}), descent));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto first, Create(LeastSquares(), {1}));
  WEIR_ASSERT_OK(Train(*first, {Examples(0, 4)}, descent));
  WEIR_ASSERT_OK_AND_ASSIGN(const auto second, Create(LeastSquares(), {1}));
  WEIR_ASSERT_OK(Train(*second, {Examples(4, 8)}, descent));
  const auto state = [](ReplicaRunner& of, const std::string& name) {
    for (const PushItem& item : of.State()) {
      if (of.declaration().variables[item.variable].name == name) return item.data;
    }
    return static_cast<const void*>(nullptr);
  };
  const auto mean = [&](ReplicaRunner& of) {
    return static_cast<const float*>(state(of, "norm/running_mean"))[5];
  };
  EXPECT_NE(mean(*first), mean(*second));
  EXPECT_NEAR(mean(*runner), (mean(*first) + mean(*second)) / 2, 1e-7);
  EXPECT_EQ(*static_cast<const int64_t*>(state(*runner, "norm/num_batches_tracked")), 1);

  const float before = mean(*runner);
  runner->KeepState();
  for (const PullItem& item : runner->Storage()) {
    if (runner->declaration().variables[item.variable].group == 0) {
      std::memset(item.data, 0, item.bytes);
    }
  }
  runner->Land(runner->Storage());
  EXPECT_EQ(mean(*runner), 0);
  runner->RestoreState();
  EXPECT_EQ(mean(*runner), before);
}

TEST(Replicas, OneThatThrowsIsNamedAndReleasesTheOthers) {
  const auto before = [](StepContext& context) {
    if (context.replica_id() == 6) throw std::runtime_error("no such layer");
  };
  for (const bool deterministic : {false, true}) {
    WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create(LeastSquares(before), {4, deterministic}));
    Descent descent;
    EXPECT_THAT(Train(*runner, Parts({2, 2, 2, 2}), descent).status(),
                HasStatus(absl::StatusCode::kInternal, "replica 6: training step: no such layer"));
    EXPECT_TRUE(descent.weights_of_pushes.empty());
  }
}

// As in LibTorch, where nothing is done about a parameter without a gradient.
TEST(Replicas, ASecondStepWithoutAnotherBackwardPassUpdatesNothing) {
  const Step step = [](StepContext&, torch::nn::Linear& net, Optimizer& sgd, const Nest& batch) {
    net(batch["image"].flatten(1)).sum().backward();
    sgd.Step();
    const torch::Tensor once = net->weight.detach().clone();
    sgd.Step();
    EXPECT_TRUE(once.equal(net->weight));
    return Nest();
  };
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create(step, {2}));
  Descent descent;
  WEIR_EXPECT_OK(Train(*runner, Parts({2, 2}), descent));
  EXPECT_EQ(descent.weights_of_pushes.size(), 2u);
}

TEST(Replicas, WhatTheServersRefuseIsTheErrorOfAllAsItCame) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create(LeastSquares(), {3}));
  Descent descent;
  descent.result = absl::AbortedError("[stale-attempt] rolled back");
  EXPECT_EQ(Train(*runner, Parts({1, 1, 1}), descent).status(), descent.result);
}

// Dropout draws from the generator of the process.
TEST(Replicas, DeterministicOnesDrawTheSameInEveryRun) {
  const auto masks = [](uint64_t step) {
    auto seen = std::make_shared<Seen>();
    const auto before = [seen](StepContext& context) {
      std::string& text = seen->texts[context.replica_id()];
      for (int i = 0; i < 5; ++i) {
        const torch::Tensor mask = torch::nn::functional::dropout(torch::ones({8}));
        absl::StrAppend(&text, (mask > 0).to(torch::kInt64).sum().item<int64_t>(), " ");
        const torch::Tensor own = torch::rand({1}, context.rng());
        absl::StrAppend(&text, own.item<float>(), " ");
        context.AllReduce(mask, ReduceOp::kSum);
      }
    };
    auto runner = Create(LeastSquares(before), {4, true});
    EXPECT_THAT(runner, IsOk());
    Descent descent;
    WEIR_EXPECT_OK(Train(**runner, Parts({2, 2, 2, 2}), descent, step));
    return seen->texts;
  };
  const std::vector<std::string> first = masks(3);
  for (int repeat = 0; repeat < 5; ++repeat) EXPECT_EQ(masks(3), first);
  EXPECT_NE(masks(4), first);
  EXPECT_NE(first[4], first[5]);
}

TEST(Replicas, EvaluateShareTheExamples) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create(LeastSquares(), {3}));
  WEIR_ASSERT_OK_AND_ASSIGN(const Metrics all, runner->Evaluate({Examples(0, 9)}));
  WEIR_ASSERT_OK_AND_ASSIGN(const Metrics parts, runner->Evaluate(Parts({2, 3, 4})));
  EXPECT_NEAR(parts.at("mean"), all.at("mean"), 1e-6);
  WEIR_ASSERT_OK_AND_ASSIGN(const Metrics few, runner->Evaluate(Parts({5, 4})));
  EXPECT_NEAR(few.at("mean"), all.at("mean"), 1e-6);
}

TEST(Replicas, MetricsAreMeansByWeight) {
  const Step step = [](StepContext& context, torch::nn::Linear&, Optimizer&, const Nest&) {
    return Nest{{"id", torch::tensor(static_cast<double>(context.replica_id()))},
                {"image", torch::zeros({3})}};
  };
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create(step, {2}));
  Descent descent;
  WEIR_ASSERT_OK_AND_ASSIGN(const Metrics metrics, Train(*runner, Parts({3, 1}), descent));
  EXPECT_EQ(metrics, (Metrics{{"id", 4.25}}));
}

TEST(Replicas, ThatAreNotBuiltAlikeAreRefused) {
  auto built = std::make_shared<int>(0);
  ModelRegistry models;
  class Odd final : public Replica {
   public:
    Odd(ReplicaContext& context, int64_t width) { context.Add("net", torch::nn::Linear(2, width)); }
    Nest Train(StepContext&, const Nest&) override { return {}; }
    Nest Evaluate(StepContext&, const Nest&) override { return {}; }
  };
  models.Add("odd",
             {[built](ReplicaContext& context) { return std::make_unique<Odd>(context, ++*built); },
              nullptr});
  TorchRunnerOptions options;
  options.spec.mutable_model()->set_builtin("odd");
  options.spec.set_replicas_per_worker(2);
  EXPECT_THAT(CreateTorchRunner(models, options).status(),
              HasStatus(absl::StatusCode::kInvalidArgument,
                        HasSubstr("declares net/weight [2,2] where the first declares net/weight "
                                  "[1,2]")));
}

}  // namespace
}  // namespace weir
