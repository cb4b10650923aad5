// SPDX-License-Identifier: Apache-2.0
#include <torch/nn/modules/linear.h>

#include "absl/strings/str_cat.h"
#include "worker/models/classifier.h"
#include "worker/models/models.h"

namespace weir {
namespace {

class MlpImpl : public torch::nn::Module {
 public:
  MlpImpl(const ExampleShape& shape, const std::vector<int64_t>& hidden) {
    int64_t width = shape.channels * shape.height * shape.width;
    for (const int64_t size : hidden) {
      const std::string name = absl::StrCat("hidden", hidden_.size());
      hidden_.push_back(register_module(name, torch::nn::Linear(width, size)));
      width = size;
    }
    scores_ = register_module("scores", torch::nn::Linear(width, shape.classes));
  }

  torch::Tensor forward(const torch::Tensor& images) {
    torch::Tensor x = images.flatten(1);
    for (torch::nn::Linear& layer : hidden_) x = torch::relu(layer(x));
    return scores_(x);
  }

 private:
  std::vector<torch::nn::Linear> hidden_;
  torch::nn::Linear scores_{nullptr};
};
TORCH_MODULE(Mlp);

class MlpClassifier final : public Classifier {
 public:
  explicit MlpClassifier(ReplicaContext& context)
      : net_(context.Add("mlp", Mlp(context.example_shape(),
                                    context.options().Get("hidden", std::vector<int64_t>{256})))) {
    optimizer_ = context.WrapJobOptimizer(net_->parameters());
  }

 private:
  torch::Tensor Scores(const torch::Tensor& images) override { return net_(images); }

  Mlp net_;
};

}  // namespace

std::unique_ptr<Replica> CreateMlp(ReplicaContext& context) {
  return std::make_unique<MlpClassifier>(context);
}

}  // namespace weir
