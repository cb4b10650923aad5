// SPDX-License-Identifier: Apache-2.0
#include "worker/torch_runner.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"
#include "weir/replicator.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

TorchRunnerOptions Options(const std::string& model, std::map<std::string, std::string> options) {
  TorchRunnerOptions runner;
  runner.spec.mutable_model()->set_builtin(model);
  for (const auto& [name, value] : options)
    (*runner.spec.mutable_model()->mutable_options())[name] = value;
  v1::Optimizer& optimizer = (*runner.spec.mutable_optimizers())["sgd"];
  optimizer.mutable_learning_rate()->set_base(0.1);
  optimizer.mutable_sgd()->set_momentum(0.9);
  runner.spec.set_seed(7);
  runner.height = runner.width = 8;
  runner.classes = 4;
  return runner;
}

absl::StatusOr<std::unique_ptr<ReplicaRunner>> Create(const TorchRunnerOptions& options) {
  return CreateTorchRunner(ModelRegistry::WithBuiltins(), options);
}

ImageBatch SomeBatch(uint64_t examples) {
  ImageBatch batch;
  batch.examples = examples;
  batch.height = batch.width = 8;
  for (uint64_t i = 0; i < examples * 64; ++i) {
    const uint64_t row = i % 64 / 8;
    const bool lit = row == i / 64 % 4;  // the row of the image's class
    batch.images.push_back((lit ? 1.0f : 0.0f) + 0.1f * std::sin(0.1f * static_cast<float>(i)));
  }
  for (uint64_t i = 0; i < examples; ++i) batch.labels.push_back(static_cast<int64_t>(i % 4));
  return batch;
}

// Plain gradient descent in the replica's own memory.
class Descent final : public GroupUpdates {
 public:
  absl::Status Update(uint32_t group, absl::Span<const PushItem> gradients,
                      absl::Span<const PullItem> weights, double weight) override {
    EXPECT_EQ(group, 1u);
    weight_of_last = weight;
    for (size_t i = 0; i < gradients.size(); ++i) {
      EXPECT_EQ(gradients[i].variable, weights[i].variable);
      if (gradients[i].data == nullptr) continue;
      EXPECT_EQ(gradients[i].bytes, weights[i].bytes);
      const auto* gradient = static_cast<const float*>(gradients[i].data);
      auto* weight = static_cast<float*>(weights[i].data);
      for (size_t k = 0; k < weights[i].bytes / sizeof(float); ++k) weight[k] -= 0.1f * gradient[k];
    }
    ++updates;
    return result;
  }

  int updates = 0;
  double weight_of_last = 0;
  absl::Status result;
};

// A step of a process of one.
absl::StatusOr<Metrics> Train(ReplicaRunner& runner, const ImageBatch& batch, uint64_t step,
                              GroupUpdates& updates) {
  ReplicaStep place;
  place.step = step;
  return runner.Train(place, {batch}, updates);
}

std::vector<char> BytesOf(ReplicaRunner& runner) {
  std::vector<char> bytes;
  for (const PullItem& item : runner.Storage()) {
    const auto* data = static_cast<const char*>(item.data);
    bytes.insert(bytes.end(), data, data + item.bytes);
  }
  return bytes;
}

TEST(TorchRunner, AnMlpDeclaresItsWeightsUnderTheJobsOptimizer) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create(Options("mlp", {{"hidden", "16,8"}})));
  const Declaration& declaration = runner->declaration();
  ASSERT_EQ(declaration.variables.size(), 6u);
  EXPECT_EQ(declaration.variables[0].name, "mlp/hidden0.weight");
  EXPECT_THAT(declaration.variables[0].shape, testing::ElementsAre(16, 64));
  EXPECT_EQ(declaration.variables[5].name, "mlp/scores.bias");
  for (const VariableSpec& variable : declaration.variables) EXPECT_EQ(variable.group, 1u);
  ASSERT_EQ(declaration.groups.size(), 1u);
  EXPECT_EQ(declaration.groups[0].name, "sgd");
  EXPECT_EQ(std::get<Sgd>(declaration.groups[0].optimizer).momentum, 0.9);
}

// Depth 8, width 16, 4 classes:
// stem 144 + 32; stage 0: 2 x 2304 + 64; stage 1: 4608 + 9216 + 128 + 512 + 64;
// stage 2: 18432 + 36864 + 256 + 2048 + 128; scores 256 + 4.
TEST(TorchRunner, AResNetHasTheParametersOfItsDepthAndWidth) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner,
                            Create(Options("resnet", {{"depth", "8"}, {"width", "16"}})));
  uint64_t parameters = 0;
  for (const VariableSpec& variable : runner->declaration().variables) {
    if (variable.group == 1) parameters += variable.elements();
  }
  EXPECT_EQ(parameters, 144u + 32 + 4608 + 64 + 4608 + 9216 + 128 + 512 + 64 + 18432 + 36864 + 256 +
                            2048 + 128 + 256 + 4);
}

TEST(TorchRunner, BatchNormStatisticsAreState) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create(Options("resnet", {})));
  std::map<std::string, VariableSpec> state;
  for (const VariableSpec& variable : runner->declaration().variables) {
    if (variable.group == 0) state[variable.name] = variable;
  }
  EXPECT_EQ(state.size(), 3u * 9);
  EXPECT_EQ(state.at("resnet/stem_norm.running_mean").dtype, DType::kFloat32);
  EXPECT_EQ(state.at("resnet/stem_norm.running_mean").aggregation, Aggregation::kDefault);
  EXPECT_EQ(state.at("resnet/stem_norm.num_batches_tracked").dtype, DType::kInt64);
  EXPECT_TRUE(state.at("resnet/stem_norm.num_batches_tracked").shape.empty());
}

TEST(TorchRunner, EveryDepthTrainsAndItsLossFalls) {
  for (const char* depth : {"8", "14", "20"}) {
    WEIR_ASSERT_OK_AND_ASSIGN(const auto runner,
                              Create(Options("resnet", {{"depth", depth}, {"width", "4"}})));
    Descent descent;
    const ImageBatch batch = SomeBatch(16);
    WEIR_ASSERT_OK_AND_ASSIGN(const Metrics first, Train(*runner, batch, 0, descent));
    Metrics last;
    for (uint64_t step = 1; step < 30; ++step) {
      WEIR_ASSERT_OK_AND_ASSIGN(last, Train(*runner, batch, step, descent));
    }
    EXPECT_LT(last.at("loss"), 0.8 * first.at("loss")) << depth;
    EXPECT_EQ(descent.updates, 30);
  }
}

TEST(TorchRunner, FirstValuesDependOnTheSeedAlone) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create(Options("resnet", {{"width", "4"}})));
  const std::vector<char> first = BytesOf(*runner);
  Descent descent;
  WEIR_ASSERT_OK(Train(*runner, SomeBatch(8), 0, descent));
  EXPECT_NE(BytesOf(*runner), first);
  WEIR_ASSERT_OK(runner->Reset());
  EXPECT_EQ(BytesOf(*runner), first);
  TorchRunnerOptions other = Options("resnet", {{"width", "4"}});
  other.spec.set_seed(8);
  WEIR_ASSERT_OK_AND_ASSIGN(const auto different, Create(other));
  EXPECT_NE(BytesOf(*different), first);
}

TEST(TorchRunner, EvaluationChangesNothing) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create(Options("resnet", {{"width", "4"}})));
  const std::vector<char> before = BytesOf(*runner);
  WEIR_ASSERT_OK_AND_ASSIGN(const Metrics metrics, runner->Evaluate({SomeBatch(8)}));
  EXPECT_GE(metrics.at("accuracy"), 0);
  EXPECT_GT(metrics.at("loss"), 0);
  EXPECT_EQ(BytesOf(*runner), before);
}

TEST(TorchRunner, WhatTheUpdatesRefuseEndsTheStep) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create(Options("mlp", {})));
  Descent descent;
  descent.result = absl::AbortedError("rolled back");
  EXPECT_THAT(Train(*runner, SomeBatch(8), 0, descent).status(),
              HasStatus(absl::StatusCode::kAborted, HasSubstr("rolled back")));
}

TEST(TorchRunner, LibTorchsErrorsBecomeAStatus) {
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, Create(Options("mlp", {})));
  Descent descent;
  ImageBatch batch = SomeBatch(8);
  batch.labels[0] = 99;  // there are 4 classes
  EXPECT_THAT(Train(*runner, batch, 0, descent).status(),
              HasStatus(absl::StatusCode::kInternal, HasSubstr("replica 0: training step: ")));
  WEIR_EXPECT_OK(Train(*runner, SomeBatch(8), 1, descent));
}

TEST(TorchRunner, AWrongOptionOrModelIsRefusedByName) {
  EXPECT_THAT(
      Create(Options("resnet", {{"depth", "9"}})).status(),
      HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("depth must be 8, 14 or 20")));
  EXPECT_THAT(Create(Options("mlp", {{"hidden", "wide"}})).status(),
              HasStatus(absl::StatusCode::kInvalidArgument,
                        HasSubstr("model option hidden: expected a whole number, found \"wide\"")));
  EXPECT_THAT(Create(Options("vgg", {})).status(),
              HasStatus(absl::StatusCode::kNotFound, "no model \"vgg\"; there is mlp, resnet"));
}

// A model of a user: two optimizers, and a parameter that no loss reaches.
class TwoOptimizers final : public Replica {
 public:
  explicit TwoOptimizers(ReplicaContext& context)
      : a_(context.Add("a", torch::nn::Linear(64, 4))),
        b_(context.Add("b", torch::nn::Linear(64, 4))) {
    first_ = context.WrapOptimizer("first", a_->parameters(), torch::optim::AdamOptions(0.5));
    second_ = context.WrapOptimizer("second", b_->parameters(), torch::optim::SGDOptions(0.5));
  }
  Nest Train(StepContext&, const Nest& batch) override {
    const torch::Tensor loss = a_(batch["image"].flatten(1)).square().mean();
    loss.backward();
    first_.Step();
    second_.Step();
    return {{"loss", loss.detach()}};
  }
  Nest Evaluate(StepContext&, const Nest& batch) override { return {{"x", batch["missing"]}}; }

 private:
  torch::nn::Linear a_, b_;
  Optimizer first_, second_;
};

class Recorded final : public GroupUpdates {
 public:
  absl::Status Update(uint32_t group, absl::Span<const PushItem> gradients,
                      absl::Span<const PullItem>, double) override {
    groups.push_back(group);
    for (const PushItem& item : gradients) absent.push_back(item.data == nullptr);
    return absl::OkStatus();
  }
  std::vector<uint32_t> groups;
  std::vector<bool> absent;
};

TEST(TorchRunner, AModelMayHaveSeveralOptimizersAndAbsentGradients) {
  ModelRegistry models;
  models.Add("two", ReplicaClassOf<TwoOptimizers>());
  TorchRunnerOptions options = Options("two", {});
  EXPECT_THAT(CreateTorchRunner(models, options).status(),
              HasStatus(absl::StatusCode::kInvalidArgument,
                        "optimizers.sgd: the model has no optimizer of this name; it has first, "
                        "second"));
  options.spec.clear_optimizers();
  WEIR_ASSERT_OK_AND_ASSIGN(const auto runner, CreateTorchRunner(models, options));
  const Declaration& declaration = runner->declaration();
  ASSERT_EQ(declaration.groups.size(), 2u);
  EXPECT_EQ(declaration.groups[0].learning_rate.base, 0.5);
  EXPECT_TRUE(std::holds_alternative<Adam>(declaration.groups[0].optimizer));
  Recorded recorded;
  WEIR_ASSERT_OK(Train(*runner, SomeBatch(4), 0, recorded));
  EXPECT_THAT(recorded.groups, testing::ElementsAre(1, 2));
  EXPECT_THAT(recorded.absent, testing::ElementsAre(false, false, true, true));
  EXPECT_THAT(
      runner->Evaluate({SomeBatch(4)}).status(),
      HasStatus(absl::StatusCode::kNotFound, "no tensor \"missing\" here; there is: image, label"));
}

}  // namespace
}  // namespace weir
