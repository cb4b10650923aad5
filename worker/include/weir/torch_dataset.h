// SPDX-License-Identifier: Apache-2.0
// FromDataset for datasets of torch::data, with their transforms. C++17; no protobuf, no gRPC.
#pragma once

#include <torch/data/datasets/base.h>
#include <torch/data/datasets/map.h>
#include <torch/data/example.h>

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "weir/input.h"

namespace weir {
namespace internal {

inline Nest NestOf(torch::data::Example<> batch, const DatasetOptions& names) {
  return {{names.data, batch.data}, {names.target, batch.target}};
}
inline Nest NestOf(torch::data::TensorExample batch, const DatasetOptions& names) {
  return {{names.data, batch.data}};
}
inline Nest NestOf(torch::Tensor batch, const DatasetOptions&) {
  return batch;
}
inline Nest NestOf(Nest batch, const DatasetOptions&) {
  return batch;
}
// Not stacked yet.
inline Nest NestOf(const std::vector<torch::data::Example<>>& examples,
                   const DatasetOptions& names) {
  std::vector<torch::Tensor> data, targets;
  for (const auto& example : examples) {
    data.push_back(example.data);
    targets.push_back(example.target);
  }
  return {{names.data, torch::stack(data)}, {names.target, torch::stack(targets)}};
}
inline Nest NestOf(const std::vector<torch::data::TensorExample>& examples,
                   const DatasetOptions& names) {
  std::vector<torch::Tensor> data;
  for (const auto& example : examples) data.push_back(example.data);
  return {{names.data, torch::stack(data)}};
}

struct NestOfBatch {
  template <typename Batch>
  Nest operator()(Batch&& batch, const DatasetOptions& names) const {
    return NestOf(std::forward<Batch>(batch), names);
  }
};

// A dataset of LibTorch's as one of Weir's. Thread-compatible.
template <typename TorchDataset, typename ToNest>
class TorchDatasetAdapter final : public Dataset {
 public:
  TorchDatasetAdapter(TorchDataset dataset, ToNest to_nest, DatasetOptions names)
      : dataset_(std::move(dataset)), to_nest_(std::move(to_nest)), names_(std::move(names)) {}

  uint64_t Size() const override {
    const auto size = dataset_.size();
    if (size.has_value()) return *size;
    throw StepError(absl::InvalidArgumentError(
        "the dataset does not know its size, and has no random access then: give its batches by "
        "FromCallable"));
  }
  Nest Get(const std::vector<uint64_t>& indices) override {
    const std::vector<size_t> request(indices.begin(), indices.end());
    return to_nest_(dataset_.get_batch(request), names_);
  }

 private:
  TorchDataset dataset_;
  const ToNest to_nest_;
  const DatasetOptions names_;
};

template <typename T, typename = void>
struct IsTorchDataset : std::false_type {};
template <typename T>
struct IsTorchDataset<T, std::void_t<typename T::BatchType, typename T::BatchRequestType>>
    : std::true_type {};

}  // namespace internal

// Batches of Example<> or TensorExample, stacked or not, of tensors or of nests; of other types,
// with `to_nest(batch, options)`.
template <typename TorchDataset, typename ToNest,
          typename = std::enable_if_t<internal::IsTorchDataset<TorchDataset>::value &&
                                      !std::is_convertible_v<ToNest, DatasetOptions>>>
Input FromDataset(TorchDataset dataset, ToNest to_nest, DatasetOptions options = {}) {
  static_assert(
      std::is_convertible_v<torch::ArrayRef<size_t>, typename TorchDataset::BatchRequestType> &&
          !TorchDataset::is_stateful,
      "a stream, chunk or stateful dataset has no random access: give its batches by FromCallable");
  auto adapter = std::make_shared<internal::TorchDatasetAdapter<TorchDataset, ToNest>>(
      std::move(dataset), std::move(to_nest), options);
  return Input(std::move(adapter), std::move(options));
}
template <typename TorchDataset,
          typename = std::enable_if_t<internal::IsTorchDataset<TorchDataset>::value>>
Input FromDataset(TorchDataset dataset, DatasetOptions options = {}) {
  return FromDataset(std::move(dataset), internal::NestOfBatch(), std::move(options));
}

}  // namespace weir
