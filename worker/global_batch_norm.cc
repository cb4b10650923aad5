// SPDX-License-Identifier: Apache-2.0
#include "weir/global_batch_norm.h"

#include <torch/utils.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "weir/step_context.h"
#include "weir/step_error.h"

namespace weir {
namespace {

// Of the joined batch, by channel; f64.
struct Moments {
  torch::Tensor mean;
  torch::Tensor variance;  // biased
  double count = 0;        // values a channel
};

// By channel, to be combined with a tensor (examples, channels, ...).
torch::Tensor AlongChannels(const torch::Tensor& channels, int64_t dimensions) {
  std::vector<int64_t> shape(static_cast<size_t>(dimensions), 1);
  shape[1] = -1;
  return channels.view(shape);
}

// [1 + 2 * channels]: count, means, sums of squared deviations. Of an empty batch: zeros, which
// have a graph like others.
torch::Tensor MomentsOfReplica(const torch::Tensor& input) {
  std::vector<int64_t> reduced = {0};
  for (int64_t d = 2; d < input.dim(); ++d) reduced.push_back(d);
  const int64_t count = input.numel() / input.size(1);
  const torch::Tensor mean = input.sum(reduced) / std::max<int64_t>(count, 1);
  const torch::Tensor deviations = (input - AlongChannels(mean, input.dim())).square().sum(reduced);
  const torch::TensorOptions f64 = mean.options().dtype(torch::kFloat64).requires_grad(false);
  return torch::cat({torch::full({1}, static_cast<double>(count), f64), mean.to(torch::kFloat64),
                     deviations.to(torch::kFloat64)});
}

Moments MomentsOfAll(const torch::Tensor& input) {
  const torch::Tensor mine = MomentsOfReplica(input);
  StepContext* const context = StepContext::Current();
  const torch::Tensor all =
      context == nullptr ? mine.unsqueeze(0) : context->AllGather(mine, "batch norm");
  const int64_t channels = input.size(1);
  const torch::Tensor counts = all.slice(1, 0, 1).detach();  // [replicas, 1]
  const torch::Tensor means = all.slice(1, 1, 1 + channels);
  const torch::Tensor deviations = all.slice(1, 1 + channels);
  Moments moments;
  moments.count = counts.sum().item<double>();
  if (moments.count < 2) {
    throw StepError(absl::InvalidArgumentError(
        absl::StrCat("batch norm trains on two values a channel or more, but all replicas ",
                     "together have ", moments.count)));
  }
  moments.mean = (counts * means).sum(0) / moments.count;
  moments.variance = (deviations + counts * (means - moments.mean).square()).sum(0) / moments.count;
  return moments;
}

template <typename Module>
void Track(Module& module, const Moments& moments) {
  const torch::NoGradGuard without_gradients;
  module.num_batches_tracked += 1;
  const c10::optional<double> momentum = module.options.momentum();
  const double share =
      momentum.has_value() ? *momentum : 1 / module.num_batches_tracked.template item<double>();
  const torch::Tensor unbiased = moments.variance * (moments.count / (moments.count - 1));
  module.running_mean.lerp_(moments.mean.to(module.running_mean), share);
  module.running_var.lerp_(unbiased.to(module.running_var), share);
}

}  // namespace

template <size_t D, typename Derived>
torch::Tensor GlobalBatchNormImplBase<D, Derived>::forward(const torch::Tensor& input) {
  _check_input_dim(input);
  // In f32 at least: autocast hands over bf16.
  const bool half = input.scalar_type() == torch::kBFloat16 || input.scalar_type() == torch::kHalf;
  const torch::Tensor values = half ? input.to(torch::kFloat32) : input;
  torch::Tensor mean = this->running_mean;
  torch::Tensor variance = this->running_var;
  if (this->is_training() || !this->options.track_running_stats()) {
    const Moments moments = MomentsOfAll(values);
    if (this->is_training() && this->options.track_running_stats()) Track(*this, moments);
    mean = moments.mean;
    variance = moments.variance;
  }
  torch::Tensor scale = (variance + this->options.eps()).rsqrt().to(values.scalar_type());
  if (this->options.affine()) scale = scale * this->weight;
  const torch::Tensor centred = values - AlongChannels(mean.to(values.scalar_type()), input.dim());
  torch::Tensor result = centred * AlongChannels(scale, input.dim());
  if (this->options.affine()) result = result + AlongChannels(this->bias, input.dim());
  return half ? result.to(input.scalar_type()) : result;
}

template <size_t D, typename Derived>
void GlobalBatchNormImplBase<D, Derived>::_check_input_dim(const torch::Tensor& input) {
  const int64_t dimensions = static_cast<int64_t>(D) + 2;
  const bool fits = input.dim() == dimensions || (D == 1 && input.dim() == 2);
  if (fits && input.size(1) == this->options.num_features()) return;
  throw StepError(absl::InvalidArgumentError(absl::StrCat(
      this->name(), " takes (examples, ", this->options.num_features(), " channels",
      D == 1 ? ") or with a length behind them" : absl::StrCat(", and ", D, " dimensions more)"),
      ", not a tensor of ", c10::str(input.sizes()))));
}

template <size_t D, typename Derived>
void GlobalBatchNormImplBase<D, Derived>::pretty_print(std::ostream& stream) const {
  stream << "weir::GlobalBatchNorm" << D << "d(" << this->options.num_features()
         << ", eps=" << this->options.eps() << ", affine=" << this->options.affine()
         << ", track_running_stats=" << this->options.track_running_stats() << ")";
}

template class GlobalBatchNormImplBase<1, GlobalBatchNorm1dImpl>;
template class GlobalBatchNormImplBase<2, GlobalBatchNorm2dImpl>;
template class GlobalBatchNormImplBase<3, GlobalBatchNorm3dImpl>;

}  // namespace weir
