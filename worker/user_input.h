// SPDX-License-Identifier: Apache-2.0
// Datasets and callables of the user's as the training loop takes them.
#pragma once

#include <memory>
#include <vector>

#include "weir/input.h"
#include "worker/worker_input.h"

namespace weir {

// A dataset in the order of permutation(seed, epoch), or as it lies. What its transforms draw from
// LibTorch's default generator depends on the seed and the slice alone, unless it is read on
// another thread than the loop's (`seeded` false). Thread-compatible.
class DatasetSlices final : public SliceReader {
 public:
  struct Options {
    uint64_t seed = 0;
    bool shuffled = true;
    bool seeded = true;
  };

  // Borrows nothing. The size is asked for once.
  static absl::StatusOr<std::unique_ptr<DatasetSlices>> Create(std::shared_ptr<Dataset> dataset,
                                                               const Options& options);

  uint64_t size() const override { return size_; }
  absl::StatusOr<ReplicaBatch> Read(const BatchSlice& slice) override;

 private:
  DatasetSlices(std::shared_ptr<Dataset> dataset, const Options& options)
      : options_(options), dataset_(std::move(dataset)) {}

  absl::StatusOr<ReplicaBatch> Get(const std::vector<uint64_t>& indices);

  const Options options_;
  const std::shared_ptr<Dataset> dataset_;
  uint64_t size_ = 0;
  uint64_t epoch_ = ~uint64_t{0};  // of order_
  std::vector<uint64_t> order_;
};

// Its batches weigh what their tensors' first dimension is. Thread-safe where the callable is.
class CallableSource final : public BatchSource {
 public:
  explicit CallableSource(SourceFunction function) : function_(std::move(function)) {}

  absl::StatusOr<ReplicaBatch> Next() override;
  void Stop() override { stop_.RequestStop(); }

 private:
  const SourceFunction function_;
  const StopSource stop_;
};

}  // namespace weir
