// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace weir {

// Grey images of one size with their labels, in memory. Immutable but for tests that fill it.
struct ImageDataset {
  uint64_t height = 0;
  uint64_t width = 0;
  uint64_t classes = 0;         // labels are below it
  std::vector<uint8_t> pixels;  // examples x height x width
  std::vector<uint8_t> labels;

  uint64_t examples() const { return labels.size(); }
};

// Reads a pair of IDX files, plain or gzipped.
// Errors: those of ReadIdx; InvalidArgument - the two files have different numbers of examples, or
// none.
absl::StatusOr<ImageDataset> LoadImages(const std::string& images, const std::string& labels);

// What maps pixels (0 .. 1) to zero mean and unit variance.
struct Normalisation {
  float mean = 0;
  float deviation = 1;
};
Normalisation NormalisationOf(const ImageDataset& dataset);

}  // namespace weir
