// SPDX-License-Identifier: Apache-2.0
// A program of one's own: an autoencoder whose code a classifier reads, each with its optimizer and
// its step, and a loop that takes two steps of the one for every step of the other.
//
//   own_replica --job own_replica.yaml --local
#include <torch/nn/functional.h>
#include <torch/nn/modules/linear.h>

#include "weir/run.h"

namespace {

namespace F = torch::nn::functional;

struct AutoencoderImpl : torch::nn::Module {
  AutoencoderImpl(int64_t pixels, int64_t width)
      : in(register_module("in", torch::nn::Linear(pixels, width))),
        out(register_module("out", torch::nn::Linear(width, pixels))) {}
  torch::Tensor Code(const torch::Tensor& images) { return torch::relu(in(images)); }
  torch::nn::Linear in, out;
};
TORCH_MODULE(Autoencoder);

struct OwnReplica : weir::Replica {
  explicit OwnReplica(weir::ReplicaContext& context)
      : pixels(context.example_shape().height * context.example_shape().width),
        width(context.options().Get("width", int64_t{32})),
        autoencoder(context.Add("autoencoder", Autoencoder(pixels, width))),
        classifier(
            context.Add("classifier", torch::nn::Linear(width, context.example_shape().classes))),
        adam(context.WrapOptimizer("adam", autoencoder->parameters(),
                                   torch::optim::AdamOptions(1e-3))),
        sgd(context.WrapOptimizer("sgd", classifier->parameters(),
                                  torch::optim::SGDOptions(0.1).momentum(0.9))) {}

  weir::Nest Reconstruct(weir::StepContext&, const weir::Nest& batch) {
    const torch::Tensor images = batch["image"].flatten(1);
    const torch::Tensor loss = F::mse_loss(autoencoder->out(autoencoder->Code(images)), images);
    adam.ZeroGrad();
    loss.backward();
    adam.Step();
    return {{"reconstruction", loss.detach()}};
  }

  weir::Nest Classify(weir::StepContext&, const weir::Nest& batch) {
    const torch::Tensor code = autoencoder->Code(batch["image"].flatten(1)).detach();
    const torch::Tensor loss = F::cross_entropy(classifier(code), batch["label"]);
    sgd.ZeroGrad();
    loss.backward();
    sgd.Step();
    return {{"loss", loss.detach()}};
  }

  weir::Nest Evaluate(weir::StepContext&, const weir::Nest& batch) override {
    const torch::Tensor scores = classifier(autoencoder->Code(batch["image"].flatten(1)));
    return {{"accuracy", scores.argmax(1).eq(batch["label"]).to(torch::kFloat64).mean()}};
  }

  static void Loop(weir::Replicator<OwnReplica>& replicator) {
    while (replicator.Next()) {
      for (int i = 0; i < 2; ++i) replicator.Run(&OwnReplica::Reconstruct).IgnoreError();
      replicator.Log(replicator.Run(&OwnReplica::Classify));
    }
  }

  const int64_t pixels, width;
  Autoencoder autoencoder;
  torch::nn::Linear classifier;
  weir::Optimizer adam, sgd;
};

}  // namespace

int main(int argc, char** argv) {
  return weir::Run<OwnReplica>(argc, argv);
}
