// SPDX-License-Identifier: Apache-2.0
// Several replicas in one process: what they train together, say to each other, and share.
#include <gmock/gmock.h>
#include <torch/nn/functional/dropout.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"
#include "weir/replicator.h"
#include "worker/torch_runner.h"
#include "worker/training_steps.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What the tests look at from outside. By replica.
struct Seen {
  std::vector<torch::Tensor> tensors = std::vector<torch::Tensor>(8);
  std::vector<std::string> texts = std::vector<std::string>(8);
};

using Step = std::function<Nest(StepContext&, torch::nn::Linear&, Optimizer&, const Nest&)>;

// 64 inputs, one output, and a step that the test brings.
class Scripted final : public Replica {
 public:
  Scripted(ReplicaContext& context, Step step)
      : net_(context.Add("net", torch::nn::Linear(64, 1))),
        norm_(context.Add("norm", torch::nn::BatchNorm1d(64))),
        sgd_(context.WrapOptimizer("sgd", net_->parameters(), torch::optim::SGDOptions(0.1))),
        step_(std::move(step)) {}
  Nest Train(StepContext& context, const Nest& batch) override {
    if (batch["image"].size(0) > 1) norm_(batch["image"].flatten(1));  // moves its statistics
    return step_(context, net_, sgd_, batch);
  }
  Nest Evaluate(StepContext& context, const Nest& batch) override {
    return {{"mean", batch["image"].mean()},
            {"id", torch::tensor(static_cast<int64_t>(context.step()))}};
  }

 private:
  torch::nn::Linear net_;
  torch::nn::BatchNorm1d norm_;
  Optimizer sgd_;
  Step step_;
};

// Least squares, after what `before` does.
Step LeastSquares(std::function<void(StepContext&)> before = [](StepContext&) {}) {
  return [before](StepContext& context, torch::nn::Linear& net, Optimizer& sgd, const Nest& batch) {
    before(context);
    const torch::Tensor errors = net(batch["image"].flatten(1)).flatten() - batch["label"];
    const torch::Tensor loss = errors.square().mean();
    sgd.ZeroGrad();
    loss.backward();
    sgd.Step();
    return Nest{{"loss", loss.detach()}};
  };
}

struct RunnerOptions {
  uint32_t replicas = 1;
  bool deterministic = false;
  int timeout_ms = 60000;
};

absl::StatusOr<std::unique_ptr<ReplicaRunner>> Create(const Step& step, RunnerOptions given) {
  ModelRegistry models;
  models.Add("scripted",
             {[step](ReplicaContext& context) { return std::make_unique<Scripted>(context, step); },
              nullptr});
  TorchRunnerOptions options;
  options.spec.mutable_model()->set_builtin("scripted");
  options.spec.set_seed(7);
  options.spec.set_replicas_per_worker(given.replicas);
  options.spec.set_deterministic(given.deterministic);
  options.spec.set_step_timeout_ms(static_cast<uint64_t>(given.timeout_ms));
  options.height = options.width = 8;
  options.classes = 4;
  return CreateTorchRunner(models, options);
}

ImageBatch Examples(uint64_t first, uint64_t end) {
  ImageBatch batch;
  batch.examples = end - first;
  batch.height = batch.width = 8;
  for (uint64_t i = first * 64; i < end * 64; ++i) {
    batch.images.push_back(std::sin(static_cast<float>(i * i % 101)));
  }
  for (uint64_t i = first; i < end; ++i) batch.labels.push_back(static_cast<int64_t>(i % 4));
  return batch;
}

// Examples 0, 1, ... in parts of these sizes.
std::vector<ReplicaBatch> Parts(const std::vector<uint64_t>& sizes) {
  std::vector<ReplicaBatch> parts;
  uint64_t first = 0;
  for (const uint64_t size : sizes) {
    parts.push_back(Examples(first, first + size));
    first += size;
  }
  return parts;
}

// Plain gradient descent.
class Descent final : public GroupUpdates {
 public:
  absl::Status Update(uint32_t, absl::Span<const PushItem> gradients,
                      absl::Span<const PullItem> weights, double weight) override {
    weights_of_pushes.push_back(weight);
    for (size_t i = 0; i < gradients.size(); ++i) {
      const auto* gradient = static_cast<const float*>(gradients[i].data);
      auto* values = static_cast<float*>(weights[i].data);
      for (size_t k = 0; gradient != nullptr && k < weights[i].bytes / sizeof(float); ++k) {
        values[k] -= 0.01f * gradient[k];
      }
    }
    return result;
  }
  std::vector<double> weights_of_pushes;
  absl::Status result;
};

absl::StatusOr<Metrics> Train(ReplicaRunner& runner, const std::vector<ReplicaBatch>& batches,
                              GroupUpdates& updates, uint64_t step = 0) {
  ReplicaStep place;
  place.step = step;
  place.first_replica = 4;
  place.replicas_in_sync = runner.replicas();
  return runner.Train(place, batches, updates);
}

std::vector<float> WeightsOf(ReplicaRunner& runner) {
  const PullItem item = runner.Storage()[0];
  const auto* values = static_cast<const float*>(item.data);
  return {values, values + item.bytes / sizeof(float)};
}

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
  return WeightsOf(**runner);
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

// Ids 4 and 5 with weights 1 and 3: 4.75.
TEST(Replicas, AWeightThatIsSetCountsInPlaceOfTheBatch) {
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

TEST(Replicas, SpeakToEachOtherInTheirStep) {
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
TEST(Replicas, ShareWorkThatIsTheSameForAll) {
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

TEST(Replicas, OnesThatCallDifferentThingsAreNamedWithWhatTheyCall) {
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

// Takes so many steps, all on the same examples.
class SomeSteps final : public TrainingSteps {
 public:
  SomeSteps(ReplicaRunner& runner, uint64_t steps) : runner_(runner), steps_(steps) {}

  bool Next() override { return status_.ok() && step_ < steps_; }
  absl::StatusOr<Metrics> Step() override {
    if (step_ >= steps_) return absl::OutOfRangeError("the end");
    absl::StatusOr<Metrics> metrics = runner_.Train(Place(), Parts({3, 1}), descent_);
    status_ = metrics.status();
    ++step_;
    return metrics;
  }
  void Log(const absl::StatusOr<Metrics>& metrics) override { logged.push_back(*metrics); }
  ReplicaStep Place() const override {
    ReplicaStep place;
    place.step = step_;
    place.replicas_in_sync = runner_.replicas();
    return place;
  }

  std::vector<Metrics> logged;

 private:
  ReplicaRunner& runner_;
  const uint64_t steps_;
  uint64_t step_ = 0;
  absl::Status status_;
  Descent descent_;
};

// Two kinds of steps, and words between them.
struct TwoKinds : Replica {
  explicit TwoKinds(ReplicaContext& context)
      : a(context.Add("a", torch::nn::Linear(64, 1))),
        b(context.Add("b", torch::nn::Linear(64, 1))),
        first(context.WrapOptimizer("first", a->parameters(), torch::optim::SGDOptions(0.1))),
        second(context.WrapOptimizer("second", b->parameters(), torch::optim::SGDOptions(0.1))) {}

  Nest StepFirst(StepContext& context, const Nest& batch) { return Step(context, batch, a, first); }
  static Nest Step(StepContext& context, const Nest& batch, torch::nn::Linear& net,
                   Optimizer& optimizer) {
    net(batch["image"].flatten(1)).square().mean().backward();
    optimizer.Step();
    return {{"id", torch::tensor(static_cast<double>(context.replica_id()))}};
  }

  static void Loop(Replicator<TwoKinds>& replicator) {
    while (replicator.Next()) {
      const auto outputs = replicator.Run(&TwoKinds::StepFirst);
      ASSERT_THAT(outputs, IsOk());
      ASSERT_EQ(outputs->size(), 2u);
      EXPECT_EQ((*outputs)[1]["id"].item<double>(), 1);
      EXPECT_EQ(replicator.num_local_replicas(), 2u);
      const auto sum = replicator.Reduce(*outputs, ReduceOp::kSum, "ids");
      ASSERT_THAT(sum, IsOk());
      EXPECT_EQ((*sum)["id"].item<double>(), 1);
      const auto second = replicator.Broadcast(*outputs, 1);
      ASSERT_THAT(second, IsOk());
      EXPECT_EQ((*second)["id"].item<double>(), 1);
      EXPECT_EQ(replicator.Reduce({Nest()}, ReduceOp::kSum).status().code(),
                absl::StatusCode::kInvalidArgument);
      replicator.Log(replicator.Run([](TwoKinds& self, StepContext& context, const Nest& batch) {
        return Step(context, batch, self.b, self.second);
      }));
    }
  }

  torch::nn::Linear a, b;
  Optimizer first, second;
};

std::vector<float> ValuesOf(ReplicaRunner& runner, size_t variable) {
  const PullItem item = runner.Storage()[variable];
  const auto* values = static_cast<const float*>(item.data);
  return {values, values + item.bytes / sizeof(float)};
}

// The end comes in the middle of the loop's second turn: its step of the other kind is not made.
TEST(Replicator, TakesStepsOfSeveralKindsUntilTheEndAndSpeaksBetweenThem) {
  ModelRegistry models;
  models.Add("two", ReplicaClassOf<TwoKinds>());
  TorchRunnerOptions options;
  options.spec.mutable_model()->set_builtin("two");
  options.spec.set_replicas_per_worker(2);
  options.height = options.width = 8;
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, CreateTorchRunner(models, options));
  SomeSteps steps(*runner, 3);
  const std::vector<float> a = ValuesOf(*runner, 0);
  const std::vector<float> b = ValuesOf(*runner, 2);
  WEIR_ASSERT_OK(runner->Loop(steps));
  // Ids 0 and 1 of 3 examples and 1.
  EXPECT_THAT(steps.logged, ElementsAre(Metrics{{"id", 0.25}}));
  EXPECT_NE(ValuesOf(*runner, 0), a);
  EXPECT_NE(ValuesOf(*runner, 2), b);
  SomeSteps one(*runner, 1);
  const std::vector<float> before = ValuesOf(*runner, 2);
  WEIR_ASSERT_OK(runner->Loop(one));
  EXPECT_EQ(ValuesOf(*runner, 2), before);  // a step of the one leaves the other as it is
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

TEST(Replicas, WhatBelongsIntoATrainingStepIsRefusedElsewhereInALine) {
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

struct Throwing : Replica {
  explicit Throwing(ReplicaContext&) {}
  static void Loop(Replicator<Throwing>&) { throw std::runtime_error("lost its way"); }
};

TEST(Replicator, WhatALoopThrowsIsAStatus) {
  ModelRegistry models;
  models.Add("throwing", ReplicaClassOf<Throwing>());
  TorchRunnerOptions options;
  options.spec.mutable_model()->set_builtin("throwing");
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, CreateTorchRunner(models, options));
  SomeSteps steps(*runner, 3);
  EXPECT_THAT(runner->Loop(steps),
              HasStatus(absl::StatusCode::kInternal, "the model's Loop: lost its way"));
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
