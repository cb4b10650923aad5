// SPDX-License-Identifier: Apache-2.0
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "absl/strings/str_cat.h"
#include "worker/models/classifier.h"
#include "worker/models/models.h"

namespace weir {
namespace {

namespace nn = torch::nn;

nn::Conv2d Convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return nn::Conv2d(
      nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

// Two 3x3 convolutions beside a shortcut, which is a projection where the shape changes.
class BlockImpl : public nn::Module {
 public:
  BlockImpl(int64_t in, int64_t out, int64_t stride) {
    conv1_ = register_module("conv1", Convolution(in, out, 3, stride));
    norm1_ = register_module("norm1", nn::BatchNorm2d(out));
    conv2_ = register_module("conv2", Convolution(out, out, 3, 1));
    norm2_ = register_module("norm2", nn::BatchNorm2d(out));
    if (in == out && stride == 1) return;
    shortcut_ = register_module("shortcut", Convolution(in, out, 1, stride));
    shortcut_norm_ = register_module("shortcut_norm", nn::BatchNorm2d(out));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor inner = norm2_(conv2_(torch::relu(norm1_(conv1_(x)))));
    return torch::relu(inner + (shortcut_.is_empty() ? x : shortcut_norm_(shortcut_(x))));
  }

 private:
  nn::Conv2d conv1_{nullptr}, conv2_{nullptr}, shortcut_{nullptr};
  nn::BatchNorm2d norm1_{nullptr}, norm2_{nullptr}, shortcut_norm_{nullptr};
};
TORCH_MODULE(Block);

class ResNetImpl : public nn::Module {
 public:
  ResNetImpl(const ExampleShape& shape, int64_t depth, int64_t width) {
    stem_ = register_module("stem", Convolution(shape.channels, width, 3, 1));
    stem_norm_ = register_module("stem_norm", nn::BatchNorm2d(width));
    int64_t in = width;
    for (int64_t stage = 0; stage < 3; ++stage) {
      const int64_t out = width << stage;
      nn::Sequential blocks;
      for (int64_t block = 0; block < (depth - 2) / 6; ++block) {
        blocks->push_back(Block(in, out, stage > 0 && block == 0 ? 2 : 1));
        in = out;
      }
      stages_.push_back(register_module(absl::StrCat("stage", stage), blocks));
    }
    scores_ = register_module("scores", nn::Linear(in, shape.classes));
  }

  torch::Tensor forward(const torch::Tensor& images) {
    torch::Tensor x = torch::relu(stem_norm_(stem_(images)));
    for (nn::Sequential& stage : stages_) x = stage->forward(x);
    return scores_(x.mean({2, 3}));
  }

 private:
  nn::Conv2d stem_{nullptr};
  nn::BatchNorm2d stem_norm_{nullptr};
  std::vector<nn::Sequential> stages_;
  nn::Linear scores_{nullptr};
};
TORCH_MODULE(ResNet);

int64_t CheckedDepth(const Options& options) {
  const int64_t depth = options.Get<int64_t>("depth", 8);
  if (depth == 8 || depth == 14 || depth == 20) return depth;
  throw StepError(
      absl::InvalidArgumentError(absl::StrCat("resnet: depth must be 8, 14 or 20, found ", depth)));
}

class ResNetClassifier final : public Classifier {
 public:
  explicit ResNetClassifier(ReplicaContext& context)
      : net_(context.Add("resnet", ResNet(context.example_shape(), CheckedDepth(context.options()),
                                          context.options().Get<int64_t>("width", 16)))) {
    optimizer_ = context.WrapJobOptimizer(net_->parameters());
  }

 private:
  torch::Tensor Scores(const torch::Tensor& images) override { return net_(images); }

  ResNet net_;
};

}  // namespace

std::unique_ptr<Replica> CreateResNet(ReplicaContext& context) {
  return std::make_unique<ResNetClassifier>(context);
}

}  // namespace weir
