// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "worker/data/batch_slices.h"
#include "worker/data/image_dataset.h"

namespace weir {

// Examples ready for a model: images are examples x 1 x height x width, normalised.
struct ImageBatch {
  uint64_t examples = 0;
  uint64_t height = 0;
  uint64_t width = 0;
  std::vector<float> images;
  std::vector<int64_t> labels;
};

struct BatchOptions {
  uint64_t seed = 0;
  bool augment =
      false;  // shift by up to 2 pixels each way, zeros coming in, and flip in half of the cases
  Normalisation normalisation;
};

// Makes batches of a dataset. A batch is a pure function of (seed, slice). Borrows the dataset.
// Used from one thread.
class BatchMaker {
 public:
  BatchMaker(const ImageDataset& dataset, const BatchOptions& options)
      : dataset_(dataset), options_(options) {}

  // Positions of permutation(seed, epoch), augmented where the options say so.
  ImageBatch Training(const BatchSlice& slice);
  // Positions as they lie in the dataset, never augmented.
  ImageBatch Plain(const BatchSlice& slice) const;

 private:
  void Copy(uint64_t example, uint64_t row, int shift_y, int shift_x, bool flip,
            ImageBatch& batch) const;
  ImageBatch Sized(uint64_t examples) const;

  const ImageDataset& dataset_;
  const BatchOptions options_;
  std::optional<uint64_t> epoch_;  // of order_
  std::vector<uint64_t> order_;
};

}  // namespace weir
