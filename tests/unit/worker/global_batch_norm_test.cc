// SPDX-License-Identifier: Apache-2.0
// Batch norm over replicas equals LibTorch's over the joined batch.
#include "weir/global_batch_norm.h"

#include <gmock/gmock.h>
#include <torch/autograd.h>
#include <torch/utils.h>

#include "tests/support/replica_steps.h"
#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

using Tensors = std::vector<torch::Tensor>;

// Parameters and buffers that are not what they are at first.
template <typename Module>
Module Made(const torch::nn::BatchNormOptions& options) {
  Module module(options);
  const torch::NoGradGuard without;
  if (options.affine()) {
    module->weight.copy_(torch::linspace(0.5, 2, options.num_features()));
    module->bias.copy_(torch::linspace(-1, 1, options.num_features()));
  }
  if (options.track_running_stats()) module->running_mean.fill_(0.3);
  return module;
}

// Far from zero, so that sums of squares would not do; channels differ.
torch::Tensor InputOf(std::vector<int64_t> shape) {
  torch::manual_seed(3);
  std::vector<int64_t> channels(shape.size(), 1);
  channels[1] = shape[1];
  return torch::randn(shape) * 2 + torch::arange(20, 20 + shape[1]).view(channels);
}

// A mean over examples, with another target for each.
torch::Tensor LossOf(const torch::Tensor& output, int64_t first_example) {
  std::vector<int64_t> shape(static_cast<size_t>(output.dim()), 1);
  shape[0] = output.size(0);
  const auto target =
      torch::arange(first_example, first_example + output.size(0), torch::kFloat32).view(shape);
  const auto per_example = (output.sigmoid() - target.sin()).square().flatten(1).sum(1);
  return per_example.sum() / static_cast<double>(std::max<int64_t>(output.size(0), 1));
}

// What training on a batch gives.
struct Trained {
  torch::Tensor output, input_gradient;  // of all examples
  Tensors gradients;                     // of weight and bias
  Tensors buffers;
};

template <typename Module>
Tensors Buffers(const Module& module) {
  Tensors buffers;
  for (const torch::Tensor& buffer : module->buffers()) buffers.push_back(buffer.clone());
  return buffers;
}

template <typename Module>
Trained OnJoinedBatch(const torch::nn::BatchNormOptions& options, const torch::Tensor& input) {
  Module module = Made<Module>(options);
  const torch::Tensor leaf = input.clone().requires_grad_();
  Trained trained;
  trained.output = module(leaf);
  LossOf(trained.output, 0).backward();
  trained.input_gradient = leaf.grad();
  for (const auto& parameter : module->parameters()) trained.gradients.push_back(parameter.grad());
  trained.buffers = Buffers(module);
  return trained;
}

// On as many replicas as there are sizes; their gradients averaged by these as weights.
template <typename Module>
Trained OnReplicas(const torch::nn::BatchNormOptions& options, const torch::Tensor& input,
                   const std::vector<int64_t>& sizes) {
  const double total = static_cast<double>(input.size(0));
  const Tensors batches = input.split_with_sizes(sizes);
  std::vector<double> weights(sizes.begin(), sizes.end());
  Tensors outputs(sizes.size()), input_gradients(sizes.size());
  std::vector<Module> modules;
  for (size_t i = 0; i < sizes.size(); ++i) modules.push_back(Made<Module>(options));
  const auto ends = RunStepOfReplicas(weights, [&](StepContext&, size_t i) {
    const torch::Tensor leaf = batches[i].clone().requires_grad_();
    outputs[i] = modules[i](leaf);
    int64_t first = 0;
    for (size_t k = 0; k < i; ++k) first += sizes[k];
    LossOf(outputs[i], first).backward();
    input_gradients[i] = leaf.grad() * (weights[i] / total);
  });
  EXPECT_THAT(ends, Each(IsOk()));
  Trained trained;
  trained.output = torch::cat(outputs);
  trained.input_gradient = torch::cat(input_gradients);
  for (size_t p = 0; p < modules[0]->parameters().size(); ++p) {
    torch::Tensor mean;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] == 0) continue;
      const auto part = modules[i]->parameters()[p].grad() * (weights[i] / total);
      mean = mean.defined() ? mean + part : part;
    }
    trained.gradients.push_back(mean);
  }
  trained.buffers = Buffers(modules.back());  // equal on all; the last may have had no example
  return trained;
}

void ExpectClose(const torch::Tensor& a, const torch::Tensor& b, const std::string& what) {
  ASSERT_EQ(a.sizes(), b.sizes()) << what;
  ASSERT_EQ(a.scalar_type(), b.scalar_type()) << what;
  const double difference = (a - b).abs().max().item<double>();
  EXPECT_LE(difference, 1e-5 * std::max(1.0, b.abs().max().item<double>())) << what;
}

void ExpectEqual(const Trained& a, const Trained& b) {
  ExpectClose(a.output, b.output, "output");
  ExpectClose(a.input_gradient, b.input_gradient, "gradient of the input");
  ASSERT_EQ(a.gradients.size(), b.gradients.size());
  for (size_t i = 0; i < a.gradients.size(); ++i) {
    ExpectClose(a.gradients[i], b.gradients[i], "gradient of a parameter");
  }
  ASSERT_EQ(a.buffers.size(), b.buffers.size());
  for (size_t i = 0; i < a.buffers.size(); ++i) ExpectClose(a.buffers[i], b.buffers[i], "buffer");
}

template <typename Global, typename Local>
void ExpectThatReplicasEqualTheJoinedBatch(const std::vector<int64_t>& shape,
                                           const torch::nn::BatchNormOptions& options) {
  const torch::Tensor input = InputOf(shape);
  const Trained joined = OnJoinedBatch<Local>(options, input);
  ExpectEqual(OnReplicas<Global>(options, input, {3, 5}), joined);
  ExpectEqual(OnReplicas<Global>(options, input, {2, 2, 2, 2}), joined);
  ExpectEqual(OnReplicas<Global>(options, input, {5, 3, 0}), joined);
  ExpectEqual(OnReplicas<Global>(options, input, {8}), joined);
}

TEST(GlobalBatchNorm, EqualsLibTorchsOverTheJoinedBatch) {
  const torch::nn::BatchNormOptions options(4);
  ExpectThatReplicasEqualTheJoinedBatch<GlobalBatchNorm1d, torch::nn::BatchNorm1d>({8, 4}, options);
  ExpectThatReplicasEqualTheJoinedBatch<GlobalBatchNorm1d, torch::nn::BatchNorm1d>({8, 4, 3},
                                                                                   options);
  ExpectThatReplicasEqualTheJoinedBatch<GlobalBatchNorm2d, torch::nn::BatchNorm2d>({8, 4, 3, 2},
                                                                                   options);
  ExpectThatReplicasEqualTheJoinedBatch<GlobalBatchNorm3d, torch::nn::BatchNorm3d>({8, 4, 2, 3, 2},
                                                                                   options);
}

TEST(GlobalBatchNorm, HonoursItsOptions) {
  using Options = torch::nn::BatchNormOptions;
  for (const Options& options :
       {Options(4).momentum(0.3).eps(0.1), Options(4).momentum(c10::nullopt),
        Options(4).affine(false), Options(4).track_running_stats(false)}) {
    ExpectThatReplicasEqualTheJoinedBatch<GlobalBatchNorm2d, torch::nn::BatchNorm2d>({8, 4, 3, 2},
                                                                                     options);
  }
}

TEST(GlobalBatchNorm, EvaluatesWithWhatItTracked) {
  const torch::nn::BatchNormOptions options(4);
  auto global = Made<GlobalBatchNorm2d>(options);
  auto local = Made<torch::nn::BatchNorm2d>(options);
  global->eval();
  local->eval();
  const torch::Tensor input = InputOf({8, 4, 3, 2});
  ExpectClose(global(input), local(input), "output");
  EXPECT_EQ(global->num_batches_tracked.item<int64_t>(), 0);
}

TEST(GlobalBatchNorm, OutsideOfAStepKnowsItsOwnBatchOnly) {
  const torch::nn::BatchNormOptions options(4);
  const torch::Tensor input = InputOf({8, 4});
  ExpectClose(Made<GlobalBatchNorm1d>(options)(input), Made<torch::nn::BatchNorm1d>(options)(input),
              "output");
}

TEST(GlobalBatchNorm, HasTheNamesOfLibTorchs) {
  const GlobalBatchNorm2d global(4);
  const torch::nn::BatchNorm2d local(4);
  EXPECT_EQ(global->named_parameters().keys(), local->named_parameters().keys());
  EXPECT_EQ(global->named_buffers().keys(), local->named_buffers().keys());
}

// The mean over examples of a gradient's square: what a gradient penalty is made of.
TEST(GlobalBatchNorm, HasGradientsOfGradients) {
  const torch::nn::BatchNormOptions options(2);
  const torch::Tensor input = InputOf({8, 2, 3}).to(torch::kFloat64);
  // Gradients of a replica's loss, times the batch: those of the sum over examples.
  const auto penalty = [](const torch::Tensor& output, const torch::Tensor& leaf, double examples) {
    const torch::Tensor loss = output.pow(3).sum() / examples;
    const auto gradient = torch::autograd::grad({loss}, {leaf}, {}, true, true)[0] * examples;
    return gradient.square().sum() / examples;
  };
  const torch::Tensor joined = input.clone().requires_grad_();
  auto local = Made<torch::nn::BatchNorm1d>(options);
  local->to(torch::kFloat64);
  penalty(local(joined), joined, 8).backward();

  const Tensors batches = input.split_with_sizes({3, 5});
  Tensors gradients(2);
  std::vector<GlobalBatchNorm1d> modules;
  for (size_t i = 0; i < 2; ++i) {
    modules.push_back(Made<GlobalBatchNorm1d>(options));
    modules.back()->to(torch::kFloat64);
  }
  const auto ends = RunStepOfReplicas({3, 5}, [&](StepContext&, size_t i) {
    const torch::Tensor leaf = batches[i].clone().requires_grad_();
    const double examples = static_cast<double>(batches[i].size(0));
    penalty(modules[i](leaf), leaf, examples).backward();
    gradients[i] = leaf.grad() * (examples / 8);
  });
  EXPECT_THAT(ends, Each(IsOk()));
  ExpectClose(torch::cat(gradients), joined.grad(), "gradient of the input");
}

TEST(GlobalBatchNorm, RefusesWhatItCannotNormalise) {
  GlobalBatchNorm2d norm(4);
  const auto error_of = [&](const torch::Tensor& input) {
    try {
      norm(input);
      return absl::OkStatus();
    } catch (const StepError& error) {
      return error.status();
    }
  };
  EXPECT_THAT(error_of(torch::ones({8, 4})),
              HasStatus(absl::StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("4 channels"), HasSubstr("[8, 4]"))));
  EXPECT_THAT(error_of(torch::ones({8, 5, 2, 2})),
              HasStatus(absl::StatusCode::kInvalidArgument, ::testing::_));
  EXPECT_THAT(error_of(torch::ones({1, 4, 1, 1})),
              HasStatus(absl::StatusCode::kInvalidArgument, HasSubstr("have 1")));
}

}  // namespace
}  // namespace weir
