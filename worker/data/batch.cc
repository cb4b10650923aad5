// SPDX-License-Identifier: Apache-2.0
#include "worker/data/batch.h"

#include <algorithm>

#include "worker/data/permutation.h"

namespace weir {

ImageBatch BatchMaker::Sized(uint64_t examples) const {
  ImageBatch batch;
  batch.examples = examples;
  batch.height = dataset_.height;
  batch.width = dataset_.width;
  // Pixels that a shift leaves open are black, as the images' own border.
  const float black = -options_.normalisation.mean / options_.normalisation.deviation;
  batch.images.assign(examples * dataset_.height * dataset_.width, black);
  batch.labels.resize(examples);
  return batch;
}

void BatchMaker::Copy(uint64_t example, uint64_t row, int shift_y, int shift_x, bool flip,
                      ImageBatch& batch) const {
  const int height = static_cast<int>(dataset_.height);
  const int width = static_cast<int>(dataset_.width);
  const uint64_t pixels = dataset_.height * dataset_.width;
  const uint8_t* from = dataset_.pixels.data() + example * pixels;
  float* to = batch.images.data() + row * pixels;
  const float scale = 1 / (255 * options_.normalisation.deviation);
  const float offset = options_.normalisation.mean / options_.normalisation.deviation;
  for (int y = std::max(0, shift_y); y < std::min(height, height + shift_y); ++y) {
    const uint8_t* line = from + (y - shift_y) * width;
    for (int x = std::max(0, shift_x); x < std::min(width, width + shift_x); ++x) {
      const int source = flip ? width - 1 - (x - shift_x) : x - shift_x;
      to[y * width + x] = static_cast<float>(line[source]) * scale - offset;
    }
  }
  batch.labels[row] = dataset_.labels[example];
}

ImageBatch BatchMaker::Training(const BatchSlice& slice) {
  if (epoch_ != slice.epoch) {
    order_ = Permutation(options_.seed, slice.epoch, dataset_.examples());
    epoch_ = slice.epoch;
  }
  ImageBatch batch = Sized(slice.examples());
  for (uint64_t position = slice.first; position < slice.end; ++position) {
    int shift_y = 0;
    int shift_x = 0;
    bool flip = false;
    if (options_.augment) {
      const uint64_t drawn = MixSeed(options_.seed, slice.epoch, position);
      shift_y = static_cast<int>((drawn >> 8 & 0xffff) % 5) - 2;
      shift_x = static_cast<int>((drawn >> 24 & 0xffff) % 5) - 2;
      flip = (drawn & 1) != 0;
    }
    Copy(order_[position], position - slice.first, shift_y, shift_x, flip, batch);
  }
  return batch;
}

ImageBatch BatchMaker::Plain(const BatchSlice& slice) const {
  ImageBatch batch = Sized(slice.examples());
  for (uint64_t position = slice.first; position < slice.end; ++position) {
    Copy(position, position - slice.first, 0, 0, false, batch);
  }
  return batch;
}

}  // namespace weir
