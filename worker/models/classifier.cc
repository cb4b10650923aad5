// SPDX-License-Identifier: Apache-2.0
#include "worker/models/classifier.h"

#include <torch/nn/functional/loss.h>

namespace weir {
namespace {

torch::Tensor Accuracy(const torch::Tensor& scores, const torch::Tensor& labels) {
  return scores.argmax(1).eq(labels).to(torch::kFloat64).mean();
}

}  // namespace

Nest Classifier::Train(StepContext&, const Nest& batch) {
  const torch::Tensor scores = Scores(batch["image"]);
  const torch::Tensor loss = torch::nn::functional::cross_entropy(scores, batch["label"]);
  optimizer_.ZeroGrad();
  loss.backward();
  optimizer_.Step();
  return {{"loss", loss.detach()}, {"accuracy", Accuracy(scores.detach(), batch["label"])}};
}

Nest Classifier::Evaluate(StepContext&, const Nest& batch) {
  const torch::Tensor scores = Scores(batch["image"]);
  return {{"loss", torch::nn::functional::cross_entropy(scores, batch["label"])},
          {"accuracy", Accuracy(scores, batch["label"])}};
}

}  // namespace weir
