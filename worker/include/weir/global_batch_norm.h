// SPDX-License-Identifier: Apache-2.0
// Batch norm over the batches of all replicas in sync (PyTorch: SyncBatchNorm). C++17; no protobuf,
// no gRPC.
#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/pimpl.h>

#include <cstddef>
#include <cstdint>
#include <ostream>

namespace weir {

// Options, parameters, buffers and their names are those of torch::nn::BatchNorm1d, 2d and 3d, so
// one can be loaded into the other. In training mode mean and variance are those of the joined
// batch: each replica gathers every replica's (count, mean, sum of squared deviations) in one
// collective, and they are combined in the order of replica ids (Chan et al. 1979, "Updating
// formulae and a pairwise algorithm for computing sample variances"); the backward pass is one
// collective too, and the gradients are those of the joined batch as well, also where batches are
// unequal or empty, and twice. In async: the replicas of one process. In evaluation mode, and in
// training mode outside of a step, nothing is gathered. Used from one thread.
//
// forward throws StepError: InvalidArgument - an input of another number of dimensions or of
// channels, or fewer than two values a channel on all replicas together.
template <size_t D, typename Derived>
class GlobalBatchNormImplBase
    : public torch::nn::NormImplBase<D, Derived, torch::nn::BatchNormOptions> {
 public:
  explicit GlobalBatchNormImplBase(const torch::nn::BatchNormOptions& options)
      : torch::nn::NormImplBase<D, Derived, torch::nn::BatchNormOptions>(options) {}
  explicit GlobalBatchNormImplBase(int64_t features)
      : GlobalBatchNormImplBase(torch::nn::BatchNormOptions(features)) {}

  torch::Tensor forward(const torch::Tensor& input);
  void pretty_print(std::ostream& stream) const override;

 protected:
  void _check_input_dim(const torch::Tensor& input) override;
};

// (examples, channels) or (examples, channels, length). Used from one thread.
class GlobalBatchNorm1dImpl : public GlobalBatchNormImplBase<1, GlobalBatchNorm1dImpl> {
 public:
  using GlobalBatchNormImplBase::GlobalBatchNormImplBase;
};
TORCH_MODULE(GlobalBatchNorm1d);

// (examples, channels, height, width). Used from one thread.
class GlobalBatchNorm2dImpl : public GlobalBatchNormImplBase<2, GlobalBatchNorm2dImpl> {
 public:
  using GlobalBatchNormImplBase::GlobalBatchNormImplBase;
};
TORCH_MODULE(GlobalBatchNorm2d);

// (examples, channels, depth, height, width). Used from one thread.
class GlobalBatchNorm3dImpl : public GlobalBatchNormImplBase<3, GlobalBatchNorm3dImpl> {
 public:
  using GlobalBatchNormImplBase::GlobalBatchNormImplBase;
};
TORCH_MODULE(GlobalBatchNorm3d);

}  // namespace weir
