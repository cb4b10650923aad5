// SPDX-License-Identifier: Apache-2.0
// What a local job trains is what a plain LibTorch loop trains. Equal means a relative L2 distance
// of at most 1e-5 over all parameters.
#include <gmock/gmock.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/container/functional.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <cstring>

#include "rpc/job_length.h"
#include "tests/integration/small_training.h"
#include "tests/support/relative_distance.h"
#include "tests/support/status_matchers.h"
#include "worker/data/batch.h"

namespace weir {
namespace {

v1::Optimizer SgdMomentum() {
  v1::Optimizer optimizer;
  optimizer.mutable_learning_rate()->set_base(0.1);
  optimizer.mutable_sgd()->set_momentum(0.9);
  optimizer.mutable_sgd()->set_weight_decay(1e-3);
  optimizer.mutable_sgd()->set_nesterov(true);
  return optimizer;
}

void SetAdam(double weight_decay, v1::Adam& adam) {
  adam.set_beta1(0.9);
  adam.set_beta2(0.999);
  adam.set_eps(1e-8);
  adam.set_weight_decay(weight_decay);
}

// The same network as the built-in mlp, with the values that the job starts from.
torch::nn::Sequential PlainNetwork(const v1::JobSpec& spec) {
  torch::nn::Linear hidden(64, 12);
  torch::nn::Linear scores(12, 4);
  const auto runner = SmallRunner(spec);
  const std::vector<PullItem> first = (*runner)->Storage();
  const torch::NoGradGuard without_gradients;
  const std::vector<torch::Tensor> parameters = {hidden->weight, hidden->bias, scores->weight,
                                                 scores->bias};
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_EQ(parameters[i].nbytes(), first[i].bytes);
    std::memcpy(parameters[i].data_ptr(), first[i].data, first[i].bytes);
  }
  return torch::nn::Sequential(hidden, torch::nn::Functional(torch::relu), scores);
}

using SetRate = std::function<void(torch::optim::Optimizer&, uint64_t examples_before)>;

std::vector<float> PlainLoop(const v1::JobSpec& spec, torch::nn::Sequential network,
                             torch::optim::Optimizer& optimizer, const SetRate& set_rate = {}) {
  const ImageDataset dataset = SmallDataset();
  BatchOptions options;
  options.seed = spec.seed();
  options.normalisation = NormalisationOf(dataset);
  BatchMaker maker(dataset, options);
  uint64_t examples = 0;
  for (uint64_t step = 0; step < TotalSteps(spec); ++step) {
    ImageBatch batch =
        maker.Training(SyncSlice({dataset.examples(), GlobalBatch(spec)}, step, {{0, 0}}, 0));
    const auto count = static_cast<int64_t>(batch.examples);
    const auto images = torch::from_blob(batch.images.data(), {count, 64});
    const auto labels = torch::from_blob(batch.labels.data(), {count}, torch::kInt64);
    if (set_rate) set_rate(optimizer, examples);
    optimizer.zero_grad();
    torch::nn::functional::cross_entropy(network->forward(images), labels).backward();
    optimizer.step();
    examples += batch.examples;
  }
  std::vector<float> values;
  for (const torch::Tensor& parameter : network->parameters()) {
    const torch::Tensor flat = parameter.detach().flatten();
    values.insert(values.end(), flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
  }
  return values;
}

TEST(LocalTraining, EqualsAPlainLoopWithSgdAndMomentum) {
  const v1::JobSpec spec = SmallJob("sgd", SgdMomentum());
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained trained, TrainLocally(spec));
  auto network = PlainNetwork(spec);
  torch::optim::SGD optimizer(
      network->parameters(),
      torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(1e-3).nesterov(true));
  EXPECT_LE(RelativeDistance(trained.values, PlainLoop(spec, network, optimizer)), kEqual);
  EXPECT_GT(trained.summary.test_accuracy, 0.9);  // it did learn
}

TEST(LocalTraining, EqualsAPlainLoopWithAdam) {
  v1::Optimizer adam;
  adam.mutable_learning_rate()->set_base(0.01);
  SetAdam(1e-3, *adam.mutable_adam());
  const v1::JobSpec spec = SmallJob("adam", adam);
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained trained, TrainLocally(spec));
  auto network = PlainNetwork(spec);
  torch::optim::Adam optimizer(network->parameters(),
                               torch::optim::AdamOptions(0.01).weight_decay(1e-3));
  EXPECT_LE(RelativeDistance(trained.values, PlainLoop(spec, network, optimizer)), kEqual);
}

TEST(LocalTraining, EqualsAPlainLoopWithAdamW) {
  v1::Optimizer adamw;
  adamw.mutable_learning_rate()->set_base(0.01);
  SetAdam(0.1, *adamw.mutable_adamw());
  const v1::JobSpec spec = SmallJob("adamw", adamw);
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained trained, TrainLocally(spec));
  auto network = PlainNetwork(spec);
  torch::optim::AdamW optimizer(network->parameters(),
                                torch::optim::AdamWOptions(0.01).weight_decay(0.1));
  EXPECT_LE(RelativeDistance(trained.values, PlainLoop(spec, network, optimizer)), kEqual);
}

// Warm-up over one epoch of 200, a cosine to 600 examples, and the final rate after it. The
// formulas are those of variables.proto.
TEST(LocalTraining, EqualsAPlainLoopWithACosineAfterAWarmUp) {
  constexpr double kBase = 0.2;
  constexpr double kFinal = 0.01;
  constexpr double kWarmUp = 200;
  constexpr double kTotal = 600;
  v1::Optimizer sgd = SgdMomentum();
  v1::Schedule& schedule = *sgd.mutable_learning_rate();
  schedule.set_base(kBase);
  schedule.set_warm_up_examples(200);
  schedule.mutable_cosine()->set_total_examples(600);
  schedule.mutable_cosine()->set_final_rate(kFinal);
  const v1::JobSpec spec = SmallJob("cosine", sgd);
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained trained, TrainLocally(spec));
  auto network = PlainNetwork(spec);
  torch::optim::SGD optimizer(
      network->parameters(),
      torch::optim::SGDOptions(kBase).momentum(0.9).weight_decay(1e-3).nesterov(true));
  const auto set_rate = [&](torch::optim::Optimizer& plain, uint64_t examples_before) {
    const auto x = static_cast<double>(examples_before);
    const double t = std::min(1.0, std::max(0.0, x - kWarmUp) / (kTotal - kWarmUp));
    double rate = kFinal + (kBase - kFinal) * (1 + std::cos(M_PI * t)) / 2;
    const double first = examples_before % 200 + 16 > 200 ? 200 - examples_before % 200 : 16;
    if (x < kWarmUp) rate *= (x + first) / kWarmUp;
    for (auto& group : plain.param_groups()) {
      static_cast<torch::optim::SGDOptions&>(group.options()).lr(rate);
    }
  };
  EXPECT_LE(RelativeDistance(trained.values, PlainLoop(spec, network, optimizer, set_rate)),
            kEqual);
}

TEST(LocalTraining, IsTheSameBitForBitInBothRegimesAndInEveryRun) {
  v1::JobSpec spec = SmallJob("regimes", SgdMomentum());
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained sync, TrainLocally(spec));
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained again, TrainLocally(spec));
  spec.mutable_regime()->set_kind(v1::REGIME_ASYNC);
  spec.mutable_length()->set_examples(3 * 200 + 11 * 16);  // 13 steps an epoch, and 11 more: 50
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained async, TrainLocally(spec));
  EXPECT_EQ(sync.values, again.values);
  EXPECT_EQ(sync.values, async.values);
  EXPECT_EQ(async.summary.steps, 50u);
}

TEST(LocalTraining, ResidualNetworksTrainWithTheirStatistics) {
  v1::JobSpec spec = SmallJob("resnet", SgdMomentum());
  spec.mutable_model()->set_builtin("resnet");
  *spec.mutable_model()->mutable_options() = {};
  (*spec.mutable_model()->mutable_options())["depth"] = "8";
  (*spec.mutable_model()->mutable_options())["width"] = "4";
  spec.mutable_evaluate()->mutable_every()->set_epochs(1);
  WEIR_ASSERT_OK_AND_ASSIGN(const Trained trained, TrainLocally(spec));
  EXPECT_GT(trained.summary.test_accuracy, 0.9);
}

}  // namespace
}  // namespace weir
