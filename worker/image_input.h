// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker/data/batch.h"
#include "worker/worker_input.h"

namespace weir {

// The job file's images: training batches in the order of the epoch's permutation, augmented where
// the options say so; or those of an evaluation, as they lie in the set. Borrows the set.
// Thread-compatible.
class ImageSlices final : public SliceReader {
 public:
  enum class Order { kTraining, kPlain };

  ImageSlices(const ImageDataset& images, const BatchOptions& options, Order order)
      : size_(images.examples()), maker_(images, options), order_(order) {}

  uint64_t size() const override { return size_; }
  absl::StatusOr<ReplicaBatch> Read(const BatchSlice& slice) override {
    return ReplicaBatch(order_ == Order::kTraining ? maker_.Training(slice) : maker_.Plain(slice));
  }

 private:
  const uint64_t size_;
  BatchMaker maker_;
  const Order order_;
};

}  // namespace weir
