// SPDX-License-Identifier: Apache-2.0
// Our rules beside LibTorch's own optimizers, on the same gradients.
#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "server/optimizer/update_rule.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/server/optimizer/optimizers.h"

namespace weir {
namespace {

constexpr int64_t kElements = 1003;
constexpr int kUpdates = 30;
constexpr double kRate = 0.01;

template <typename Options>
Options AdamOptionsOf(const v1::Adam& options) {
  return Options(kRate)
      .betas({options.beta1(), options.beta2()})
      .eps(options.eps())
      .weight_decay(options.weight_decay())
      .amsgrad(options.amsgrad());
}

std::unique_ptr<torch::optim::Optimizer> LibTorchSgd(const v1::Sgd& options, torch::Tensor w) {
  return std::make_unique<torch::optim::SGD>(std::vector<torch::Tensor>{w},
                                             torch::optim::SGDOptions(kRate)
                                                 .momentum(options.momentum())
                                                 .dampening(options.dampening())
                                                 .weight_decay(options.weight_decay())
                                                 .nesterov(options.nesterov()));
}

std::unique_ptr<torch::optim::Optimizer> LibTorchAdagrad(const v1::Adagrad& options,
                                                         torch::Tensor w) {
  return std::make_unique<torch::optim::Adagrad>(
      std::vector<torch::Tensor>{w},
      torch::optim::AdagradOptions(kRate)
          .lr_decay(options.lr_decay())
          .weight_decay(options.weight_decay())
          .initial_accumulator_value(options.initial_accumulator_value())
          .eps(options.eps()));
}

std::unique_ptr<torch::optim::Optimizer> LibTorchRmsProp(const v1::RmsProp& options,
                                                         torch::Tensor w) {
  return std::make_unique<torch::optim::RMSprop>(std::vector<torch::Tensor>{w},
                                                 torch::optim::RMSpropOptions(kRate)
                                                     .alpha(options.alpha())
                                                     .eps(options.eps())
                                                     .weight_decay(options.weight_decay())
                                                     .momentum(options.momentum())
                                                     .centered(options.centered()));
}

std::unique_ptr<torch::optim::Optimizer> LibTorchOf(const v1::Optimizer& optimizer,
                                                    torch::Tensor w) {
  switch (optimizer.kind_case()) {
    case v1::Optimizer::kSgd:
      return LibTorchSgd(optimizer.sgd(), w);
    case v1::Optimizer::kAdagrad:
      return LibTorchAdagrad(optimizer.adagrad(), w);
    case v1::Optimizer::kRmsprop:
      return LibTorchRmsProp(optimizer.rmsprop(), w);
    case v1::Optimizer::kAdam:
      return std::make_unique<torch::optim::Adam>(
          std::vector<torch::Tensor>{w},
          AdamOptionsOf<torch::optim::AdamOptions>(optimizer.adam()));
    case v1::Optimizer::kAdamw:
      return std::make_unique<torch::optim::AdamW>(
          std::vector<torch::Tensor>{w},
          AdamOptionsOf<torch::optim::AdamWOptions>(optimizer.adamw()));
    default:
      return nullptr;
  }
}

std::byte* Bytes(torch::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.data_ptr());
}

// ||ours - LibTorch's|| / ||LibTorch's|| over the weights behind all updates.
double Distance(const v1::Optimizer& optimizer, torch::ScalarType type, v1::DType dtype) {
  torch::manual_seed(7);
  torch::Tensor ours = torch::randn({kElements}, type);
  torch::Tensor theirs = ours.clone().requires_grad_(true);
  const auto libtorch = LibTorchOf(optimizer, theirs);

  const auto rule = *UpdateRule::Create(optimizer, dtype);
  torch::Tensor slots = torch::empty({static_cast<int64_t>(rule->num_slots()), kElements}, type);
  const size_t stride = kElements * ours.element_size();
  rule->InitialiseSlots(Bytes(slots), stride, kElements);

  for (uint64_t update = 0; update < kUpdates; ++update) {
    torch::Tensor gradient = torch::randn({kElements}, type);
    theirs.mutable_grad() = gradient;
    libtorch->step();
    rule->Apply({.learning_rate = kRate, .updates_before = update}, Bytes(gradient), 0, kElements,
                {Bytes(ours), Bytes(ours), Bytes(slots), Bytes(slots), stride});
  }
  return ((ours - theirs).norm() / theirs.norm()).item<double>();
}

TEST(UpdateRule, EqualsLibTorchToRounding) {
  for (const NamedOptimizer& named : AllOptimizers()) {
    EXPECT_LE(Distance(named.optimizer, torch::kFloat32, v1::DTYPE_F32), 2e-6) << named.name;
    EXPECT_LE(Distance(named.optimizer, torch::kFloat64, v1::DTYPE_F64), 2e-15) << named.name;
  }
}

}  // namespace
}  // namespace weir
