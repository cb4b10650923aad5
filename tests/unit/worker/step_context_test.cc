// SPDX-License-Identifier: Apache-2.0
// What the replicas of a process say to each other in their step functions.
#include "tests/unit/worker/replicas_fixture.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Ids 4 and 5 with weights 1 and 3: 4.75.
TEST(StepContext, AWeightThatIsSetCountsInPlaceOfTheBatch) {
  const auto before = [](StepContext& context) {
    context.SetWeight(context.replica_id() == 4 ? 1 : 3);
    const torch::Tensor id = torch::tensor(static_cast<float>(context.replica_id()));
    EXPECT_EQ(context.AllReduce(id, ReduceOp::kMean).item<float>(), 4.75f);
    EXPECT_THROW(context.SetWeight(2), StepError);
  };
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create(LeastSquares(before), {2}));
  Descent descent;
  WEIR_ASSERT_OK(Train(*runner, Parts({3, 3}), descent));
  EXPECT_THAT(descent.weights_of_pushes, ElementsAre(4));
}

TEST(StepContext, TellsTheStepOfTheWorkerAndThatOfTheJob) {
  const auto before = [](StepContext& context) {
    EXPECT_EQ(context.step(), 3u);
    EXPECT_EQ(context.global_step(), 7u);
  };
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create(LeastSquares(before), {1}));
  Descent descent;
  ReplicaStep place;
  place.step = 3;
  place.global_step = 7;
  WEIR_EXPECT_OK(runner->Train(place, Parts({3}), descent));
}

TEST(StepContext, SpeakToEachOtherInTheirStep) {
  const Step step = [](StepContext& context, torch::nn::Linear&, Optimizer&, const Nest& batch) {
    const auto id = static_cast<int64_t>(context.replica_id());
    EXPECT_EQ(context.num_replicas_in_sync(), 3u);
    EXPECT_EQ(StepContext::Current(), &context);
    const torch::Tensor mine = torch::tensor({id, id + 1});
    EXPECT_TRUE(context.AllReduce(mine, ReduceOp::kSum).equal(torch::tensor({15l, 18l})));
    EXPECT_TRUE(context.AllReduce(mine, ReduceOp::kMax).equal(torch::tensor({6l, 7l})));
    EXPECT_TRUE(
        context.AllGather(mine, "ids").equal(torch::tensor({{4l, 5l}, {5l, 6l}, {6l, 7l}})));
    EXPECT_TRUE(context.Broadcast(mine, 1).equal(torch::tensor({5l, 6l})));
    const Nest both = context.AllReduce(Nest{{"a", mine}, {"b", {mine * 2}}}, ReduceOp::kMin, "n");
    EXPECT_TRUE(both.at("b")[0].equal(torch::tensor({8l, 10l})));
    // Weights 1, 2 and 3 examples: (4 + 2 * 5 + 3 * 6) / 6.
    const torch::Tensor weighted =
        context.AllReduce(torch::tensor(id).to(torch::kFloat64), ReduceOp::kMean);
    EXPECT_DOUBLE_EQ(weighted.item<double>(), 32.0 / 6);
    EXPECT_EQ(batch["label"].size(0), id - 3);
    return Nest();
  };
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create(step, {3}));
  Descent descent;
  WEIR_EXPECT_OK(Train(*runner, Parts({1, 2, 3}), descent));
}

// Five items over three replicas: 2, 2 and 1.
TEST(StepContext, ShareWorkThatIsTheSameForAll) {
  const Step step = [](StepContext& context, torch::nn::Linear&, Optimizer&, const Nest&) {
    const torch::Tensor items = torch::arange(5, torch::kFloat32);
    int64_t given = 0;
    const auto squares = [&](const Nest& part) {
      given = part.tensor().size(0);
      return Nest(part.tensor().square());
    };
    EXPECT_TRUE(context.MapGather(items, squares).tensor().equal(items.square()));
    EXPECT_EQ(given, context.replica_id() == 6 ? 1 : 2);
    const auto mean = [](const Nest& part) { return Nest(part.tensor().mean()); };
    const Nest all = context.MapReduce(items, mean, ReduceOp::kMean);
    EXPECT_FLOAT_EQ(all.tensor().item<float>(), 2);
    return Nest();
  };
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create(step, {3}));
  Descent descent;
  WEIR_EXPECT_OK(Train(*runner, Parts({1, 1, 1}), descent));
}

TEST(StepContext, OnesThatCallDifferentThingsAreNamedWithWhatTheyCall) {
  const auto before = [](StepContext& context) {
    if (context.replica_id() == 5) context.AllGather(torch::zeros({2}), "hits");
  };
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create(LeastSquares(before), {2}));
  Descent descent;
  EXPECT_THAT(Train(*runner, Parts({2, 2}), descent).status(),
              HasStatus(absl::StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("replica 4"), HasSubstr("sgd.Step()"),
                              HasSubstr("replica 5"), HasSubstr("AllGather \"hits\" f32[2]"))));
}

// What belongs into a training step, elsewhere.
struct Misplaced : Replica {
  explicit Misplaced(ReplicaContext& context)
      : net(context.Add("net", torch::nn::Linear(2, 1))),
        sgd(context.WrapOptimizer("sgd", net->parameters(), torch::optim::SGDOptions(0.1))),
        what(context.options().Get("what", std::string())) {}
  Nest Evaluate(StepContext& context, const Nest&) override {
    if (what == "step") sgd.Step();
    if (what == "reduce") context.AllReduce(torch::zeros({1}), ReduceOp::kSum);
    if (what == "map") context.MapGather(torch::zeros({1}), [](const Nest& part) { return part; });
    if (what == "empty") Optimizer().Step();
    if (what == "zero of empty") Optimizer().ZeroGrad();
    if (what == "clip of empty") Optimizer().Clip({});
    return {};
  }
  torch::nn::Linear net;
  Optimizer sgd;
  std::string what;
};

TEST(StepContext, WhatBelongsIntoATrainingStepIsRefusedElsewhereInALine) {
  const auto evaluate = [](const std::string& what) -> absl::Status {
    ModelRegistry models;
    models.Add("misplaced", ReplicaClassOf<Misplaced>());
    TorchRunnerOptions options;
    options.spec.mutable_model()->set_builtin("misplaced");
    options.spec.mutable_model()->mutable_options()->insert({"what", what});
    options.spec.set_replicas_per_worker(2);
    auto runner = CreateTorchRunner(models, options);
    if (!runner.ok()) return runner.status();
    return (*runner)->Evaluate(Parts({1, 1})).status();
  };
  WEIR_EXPECT_OK(evaluate("nothing"));
  EXPECT_THAT(evaluate("step"), HasStatus(absl::StatusCode::kFailedPrecondition,
                                          "Optimizer::Step outside of a step function"));
  EXPECT_THAT(evaluate("reduce"), HasStatus(absl::StatusCode::kFailedPrecondition,
                                            "a collective outside of a training step"));
  EXPECT_THAT(evaluate("map"), HasStatus(absl::StatusCode::kFailedPrecondition,
                                         "a collective outside of a training step"));
  for (const char* call : {"empty", "zero of empty", "clip of empty"}) {
    EXPECT_THAT(evaluate(call),
                HasStatus(absl::StatusCode::kFailedPrecondition,
                          "an Optimizer that WrapOptimizer has not made has no Step"));
  }
}

}  // namespace
}  // namespace weir
