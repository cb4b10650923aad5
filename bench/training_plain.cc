// SPDX-License-Identifier: Apache-2.0
// The limit of training_bench: the loop that one would write with LibTorch alone, with models as
// worker/models has them. Prints "samples_per_second=X" over all its steps.
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <iostream>
#include <string>

#include "bench/stopwatch.h"
#include "common/allocator.h"

namespace {

namespace nn = torch::nn;

struct BlockImpl : nn::Module {
  BlockImpl(int64_t in, int64_t out, int64_t stride) {
    const auto convolution = [](int64_t from, int64_t to, int64_t kernel, int64_t step) {
      return nn::Conv2d(
          nn::Conv2dOptions(from, to, kernel).stride(step).padding(kernel / 2).bias(false));
    };
    inner = register_module(
        "inner", nn::Sequential(convolution(in, out, 3, stride), nn::BatchNorm2d(out), nn::ReLU(),
                                convolution(out, out, 3, 1), nn::BatchNorm2d(out)));
    if (in == out && stride == 1) return;
    shortcut = register_module(
        "shortcut", nn::Sequential(convolution(in, out, 1, stride), nn::BatchNorm2d(out)));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return torch::relu(inner->forward(x) + (shortcut.is_empty() ? x : shortcut->forward(x)));
  }
  nn::Sequential inner{nullptr}, shortcut{nullptr};
};
TORCH_MODULE(Block);

// Depth 8, width 16.
nn::Sequential ResNet() {
  return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(1, 16, 3).padding(1).bias(false)),
                        nn::BatchNorm2d(16), nn::ReLU(), Block(16, 16, 1), Block(16, 32, 2),
                        Block(32, 64, 2), nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions(1)),
                        nn::Flatten(), nn::Linear(64, 10));
}

nn::Sequential Mlp() {
  return nn::Sequential(nn::Flatten(), nn::Linear(784, 1024), nn::ReLU(), nn::Linear(1024, 1024),
                        nn::ReLU(), nn::Linear(1024, 10));
}

struct Options {
  std::string model = "mlp";
  int64_t examples = 8192;  // of the training set, drawn at random
  int64_t batch = 64;
  int64_t steps = 100;
};

double SamplesPerSecond(const Options& options) {
  torch::manual_seed(1);
  const torch::Tensor images = torch::randint(256, {options.examples, 1, 28, 28}, torch::kUInt8);
  const torch::Tensor labels = torch::randint(10, {options.examples}, torch::kInt64);
  nn::Sequential model = options.model == "resnet" ? ResNet() : Mlp();
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(1e-3).momentum(0.9));
  double loss_sum = 0;
  double accuracy_sum = 0;
  torch::Tensor order;
  const weir::bench::Stopwatch stopwatch;
  for (int64_t step = 0; step < options.steps; ++step) {
    const int64_t first = step * options.batch % (options.examples - options.batch + 1);
    if (first < options.batch) order = torch::randperm(options.examples);
    const torch::Tensor chosen = order.slice(0, first, first + options.batch);
    const torch::Tensor batch =
        images.index_select(0, chosen).to(torch::kFloat32).div_(255).sub_(0.5).div_(0.29);
    const torch::Tensor wanted = labels.index_select(0, chosen);
    const torch::Tensor scores = model->forward(batch);
    const torch::Tensor loss = nn::functional::cross_entropy(scores, wanted);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    loss_sum += loss.item<double>();
    accuracy_sum += scores.argmax(1).eq(wanted).to(torch::kFloat32).mean().item<double>();
  }
  const double seconds = stopwatch.seconds();
  std::cerr << "mean loss " << loss_sum / static_cast<double>(options.steps) << ", accuracy "
            << accuracy_sum / static_cast<double>(options.steps) << "\n";
  return static_cast<double>(options.steps * options.batch) / seconds;
}

}  // namespace

int main(int argc, char** argv) {
  weir::KeepFreedMemory();
  torch::set_num_threads(1);
  Options options;
  CLI::App app("A plain LibTorch training loop");
  app.add_option("--model", options.model, "mlp or resnet");
  app.add_option("--examples", options.examples);
  app.add_option("--batch", options.batch);
  app.add_option("--steps", options.steps);
  CLI11_PARSE(app, argc, argv);
  const double rate = SamplesPerSecond(options);  // prints too
  std::cout << "samples_per_second=" << rate << "\n";
  return 0;
}
