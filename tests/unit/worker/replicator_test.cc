// SPDX-License-Identifier: Apache-2.0
// Loops of a model's own over its replicas.
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/errors.h"
#include "tests/unit/worker/replicas_fixture.h"
#include "worker/training_steps.h"

namespace weir {
namespace {

using ::testing::ElementsAre;

// Takes so many steps, all on the same examples.
class SomeSteps final : public TrainingSteps {
 public:
  SomeSteps(ReplicaRunner& runner, uint64_t steps) : runner_(runner), steps_(steps) {}

  bool Next() override { return status_.ok() && step_ < steps_; }
  absl::StatusOr<Metrics> Step() override {
    if (step_ >= steps_) return absl::OutOfRangeError("the end");
    const auto train = [&] { return runner_.Train(Place(), Parts(sizes), descent_); };
    absl::StatusOr<Metrics> metrics = train();
    while (MayRepeatStep(metrics.status())) metrics = train();
    status_ = metrics.status();
    ++step_;
    return metrics;
  }
  void Log(const absl::StatusOr<Metrics>& metrics) override { logged.push_back(*metrics); }
  ReplicaStep Place() const override {
    ReplicaStep place;
    place.step = step_;
    place.replicas_in_sync = runner_.replicas();
    place.others = others;
    return place;
  }

  std::vector<Metrics> logged;
  std::vector<uint64_t> sizes = {3, 1};  // of the replicas' batches
  ProcessCollectives* others = nullptr;

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

// Says two things before each step and one in it.
struct Talking : Replica {
  explicit Talking(ReplicaContext& context)
      : net(context.Add("net", torch::nn::Linear(64, 1))),
        sgd(context.WrapOptimizer("sgd", net->parameters(), torch::optim::SGDOptions(0.1))) {}
  Nest Train(StepContext& context, const Nest& batch) override {
    context.AllReduce(torch::ones({1}), ReduceOp::kSum, "in it");
    net(batch["image"].flatten(1)).square().mean().backward();
    sgd.Step();
    return {};
  }
  static void Loop(Replicator<Talking>& replicator) {
    const std::vector<Nest> mine = {Nest(torch::ones({1}))};
    while (replicator.Next()) {
      EXPECT_THAT(replicator.Reduce(mine, ReduceOp::kSum, "first"), IsOk());
      EXPECT_THAT(replicator.Broadcast(mine, 0, "second"), IsOk());
      EXPECT_THAT(replicator.Run(&Talking::Train), IsOk());
    }
  }
  torch::nn::Linear net;
  Optimizer sgd;
};

// The process is the only one that is left of some; the others have left within a collective.
class LeftAlone final : public ProcessCollectives {
 public:
  explicit LeftAlone(std::string within) : within_(std::move(within)) {}
  absl::StatusOr<std::vector<Present>> CallRoll(const CollectivePlace& place, bool) override {
    said.push_back(absl::StrCat(place.step, ".", place.ordinal, " roll"));
    return std::vector<Present>{{0, false}};
  }
  absl::Status Run(const CollectiveCall& call, const CollectivePlace& place,
                   absl::Span<const std::byte> data, std::vector<std::byte>& result) override {
    said.push_back(absl::StrCat(place.step, ".", place.ordinal, " ", call.name));
    result.assign(data.begin(), data.end());
    if (said.back() != within_ || std::exchange(left_, true)) return absl::OkStatus();
    return MemberLeft("worker 1 has left");
  }
  std::vector<std::string> said;

 private:
  const std::string within_;
  bool left_ = false;
};

std::vector<std::string> SaidInTwoStepsWhereOneLeavesWithin(const std::string& collective) {
  ModelRegistry models;
  models.Add("talking", ReplicaClassOf<Talking>());
  TorchRunnerOptions options;
  options.spec.mutable_model()->set_builtin("talking");
  options.height = options.width = 8;
  const auto runner = CreateTorchRunner(models, options);
  EXPECT_THAT(runner, IsOk());
  if (!runner.ok()) return {};
  SomeSteps steps(**runner, 2);
  LeftAlone others(collective);
  steps.sizes = {3};
  steps.others = &others;
  EXPECT_THAT((*runner)->Loop(steps), IsOk());
  return others.said;
}

TEST(Replicator, WhatAWorkerHasLeftInTheMiddleOfIsSaidAgainFromTheLastStepOn) {
  EXPECT_THAT(
      SaidInTwoStepsWhereOneLeavesWithin("1.2 second"),
      ElementsAre("0.0 roll", "0.1 first", "0.2 second", "0.3 in it", "1.0 roll", "1.1 first",
                  "1.2 second", "1.0 roll", "1.1 first", "1.2 second", "1.3 in it"));
}

// Others may not have had the result of "second" yet, and say it again.
TEST(Replicator, AStepThatIsRepeatedBeginsWithWhatWasSaidBeforeIt) {
  EXPECT_THAT(
      SaidInTwoStepsWhereOneLeavesWithin("1.3 in it"),
      ElementsAre("0.0 roll", "0.1 first", "0.2 second", "0.3 in it", "1.0 roll", "1.1 first",
                  "1.2 second", "1.3 in it", "1.0 roll", "1.1 first", "1.2 second", "1.3 in it"));
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

}  // namespace
}  // namespace weir
