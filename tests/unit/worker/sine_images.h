// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "worker/data/batch.h"

namespace weir {

// Of 4 x 4 pixels from -1 to 1; labels 0, 1, 0, ...
inline ImageBatch SineImages(uint64_t examples) {
  ImageBatch batch;
  batch.examples = examples;
  batch.height = batch.width = 4;
  for (uint64_t i = 0; i < examples * 16; ++i) {
    batch.images.push_back(std::sin(static_cast<float>(i * i % 101)));
  }
  for (uint64_t i = 0; i < examples; ++i) batch.labels.push_back(static_cast<int64_t>(i % 2));
  return batch;
}

}  // namespace weir
