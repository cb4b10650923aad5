// SPDX-License-Identifier: Apache-2.0
// A GAN: two models, two optimizers, and five steps of the discriminator for every one of the
// generator. Wasserstein loss with gradient penalty (Gulrajani et al. 2017, arXiv 1704.00028).
//
//   gan --job gan.yaml --local
#include <torch/autograd.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include "weir/global_batch_norm.h"
#include "weir/run.h"

namespace {

constexpr int64_t kNoise = 32;
constexpr double kPenalty = 10;

struct Gan : weir::Replica {
  explicit Gan(weir::ReplicaContext& context)
      : pixels(context.example_shape().height * context.example_shape().width),
        generator(context.Add("generator", MakeGenerator(pixels, Width(context)))),
        discriminator(context.Add("discriminator", MakeDiscriminator(pixels, Width(context)))),
        generator_adam(context.WrapOptimizer("generator", generator->parameters(), Adam())),
        discriminator_adam(
            context.WrapOptimizer("discriminator", discriminator->parameters(), Adam())) {}

  static int64_t Width(weir::ReplicaContext& context) {
    return context.options().Get("width", int64_t{128});
  }
  static torch::optim::AdamOptions Adam() {
    return torch::optim::AdamOptions(1e-4).betas({0.5, 0.9});
  }
  static torch::nn::Sequential MakeGenerator(int64_t pixels, int64_t width) {
    using namespace torch::nn;  // NOLINT
    return Sequential(Linear(kNoise, width), weir::GlobalBatchNorm1d(width), ReLU(),
                      Linear(width, pixels));
  }
  static torch::nn::Sequential MakeDiscriminator(int64_t pixels, int64_t width) {
    using namespace torch::nn;  // NOLINT
    const auto leaky = LeakyReLUOptions().negative_slope(0.2);
    return Sequential(Linear(pixels, width), LeakyReLU(leaky), Linear(width, width),
                      LeakyReLU(leaky), Linear(width, 1));
  }

  torch::Tensor Fakes(weir::StepContext& context, int64_t count) {
    return generator->forward(torch::randn({count, kNoise}, context.rng()));
  }

  // How far from 1 the discriminator's slope is, between real and made images.
  torch::Tensor Penalty(weir::StepContext& context, const torch::Tensor& real,
                        const torch::Tensor& fake) {
    const torch::Tensor share = torch::rand({real.size(0), 1}, context.rng());
    const torch::Tensor between = (real * share + fake * (1 - share)).requires_grad_();
    const torch::Tensor slope =
        torch::autograd::grad({discriminator->forward(between).sum()}, {between}, {},
                              /*retain_graph=*/true, /*create_graph=*/true)[0];
    return (slope.norm(2, 1) - 1).square().mean();
  }

  weir::Nest StepDiscriminator(weir::StepContext& context, const weir::Nest& batch) {
    const torch::Tensor real = batch["image"].flatten(1);
    const torch::Tensor fake = Fakes(context, real.size(0)).detach();
    const torch::Tensor distance =
        discriminator->forward(real).mean() - discriminator->forward(fake).mean();
    const torch::Tensor loss = kPenalty * Penalty(context, real, fake) - distance;
    discriminator_adam.ZeroGrad();
    loss.backward();
    discriminator_adam.Step();
    return {{"distance", distance.detach()}};
  }

  // Its backward pass goes through the discriminator and fills gradients there too, which stay
  // here.
  weir::Nest StepGenerator(weir::StepContext& context, const weir::Nest& batch) {
    const torch::Tensor fake = Fakes(context, batch["image"].size(0));
    const torch::Tensor loss = -discriminator->forward(fake).mean();
    generator_adam.ZeroGrad();
    loss.backward();
    generator_adam.Step();
    return {{"loss", loss.detach()}};
  }

  weir::Nest Evaluate(weir::StepContext& context, const weir::Nest& batch) override {
    const torch::Tensor real = batch["image"].flatten(1);
    const torch::Tensor fake = Fakes(context, real.size(0));
    return {
        {"distance", discriminator->forward(real).mean() - discriminator->forward(fake).mean()}};
  }

  static void Loop(weir::Replicator<Gan>& replicator) {
    while (replicator.Next()) {
      for (int i = 0; i < 5; ++i) replicator.Run(&Gan::StepDiscriminator).IgnoreError();
      replicator.Log(replicator.Run(&Gan::StepGenerator));
    }
  }

  const int64_t pixels;
  torch::nn::Sequential generator, discriminator;
  weir::Optimizer generator_adam, discriminator_adam;
};

}  // namespace

int main(int argc, char** argv) {
  return weir::Run<Gan>(argc, argv);
}
