// SPDX-License-Identifier: Apache-2.0
// input-probe: a program whose replicas bring their input, for tests of several processes. What
// MakeInput gives is the model's option `input`.
#include <torch/nn/module.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>

#include "weir/run.h"
#include "weir/torch_dataset.h"

namespace {

struct SumImpl : torch::nn::Module {
  SumImpl() : value(register_parameter("value", torch::zeros({1}))) {}
  torch::Tensor value;
};
TORCH_MODULE(Sum);

// Example i is the number i.
struct Numbers : torch::data::datasets::Dataset<Numbers, torch::data::TensorExample> {
  explicit Numbers(size_t size) : size_(size) {}
  torch::data::TensorExample get(size_t index) override {
    return torch::tensor(static_cast<float>(index));
  }
  torch::optional<size_t> size() const override { return size_; }

  const size_t size_;
};

struct Probe : weir::Replica {
  explicit Probe(weir::ReplicaContext& context)
      : sum(context.Add("sum", Sum())),
        sgd(context.WrapOptimizer("sgd", sum->parameters(), torch::optim::SGDOptions(1))) {}

  static weir::Input MakeInput(const weir::InputContext& context) {
    const std::string kind = context.options().Get("input", std::string());
    if (kind == "dataset") {
      weir::DatasetOptions options;
      options.prefetch = static_cast<uint32_t>(context.options().Get("prefetch", int64_t{0}));
      return weir::FromDataset(Numbers(context.split() == weir::Split::kTrain ? 64 : 3), options);
    }
    const bool second = context.pipeline_id() == 1;
    auto calls = std::make_shared<int>(0);
    return weir::FromCallable(
        [=, n = context.PerReplicaBatch(1)](weir::StopToken stop) -> std::optional<weir::Nest> {
          ++*calls;
          if (kind == "ends" && second && *calls > 5) return std::nullopt;
          if (kind == "all-end" && *calls > 5) return std::nullopt;
          if (kind == "throws" && second && *calls > 5)
            throw std::runtime_error("the actor is gone");
          if (kind == "blocks" && *calls > 5) stop.WaitFor(std::chrono::hours(1));
          return torch::full({n}, 2.0f);
        });
  }

  // Of rate 1: the value falls by the mean of each batch.
  weir::Nest Add(weir::StepContext&, const weir::Nest& batch) {
    const torch::Tensor numbers = batch.is_tensor() ? batch.tensor() : batch["data"];
    (sum->value * numbers).mean().backward();
    sgd.Step();
    return {{"value", sum->value.detach().clone()}};
  }

  weir::Nest Evaluate(weir::StepContext&, const weir::Nest& batch) override {
    return {{"accuracy", batch["data"].mean()}};
  }

  static void Loop(weir::Replicator<Probe>& replicator) {
    while (replicator.Next()) replicator.Log(replicator.Run(&Probe::Add));
  }

  Sum sum;
  weir::Optimizer sgd;
};

}  // namespace

int main(int argc, char** argv) {
  return weir::Run<Probe>(argc, argv);
}
