// SPDX-License-Identifier: Apache-2.0
#include "worker/data/image_dataset.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/data/idx.h"

namespace weir {

absl::StatusOr<ImageDataset> LoadImages(const std::string& images, const std::string& labels) {
  WEIR_ASSIGN_OR_RETURN(IdxArray pixels, ReadIdx(images, 3));
  WEIR_ASSIGN_OR_RETURN(IdxArray classes, ReadIdx(labels, 1));
  if (pixels.shape[0] != classes.shape[0]) {
    return absl::InvalidArgumentError(absl::StrCat(images, " has ", pixels.shape[0],
                                                   " images, but ", labels, " has ",
                                                   classes.shape[0], " labels"));
  }
  if (pixels.values.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(images, ": there is no image in it"));
  }
  ImageDataset dataset;
  dataset.height = pixels.shape[1];
  dataset.width = pixels.shape[2];
  dataset.pixels = std::move(pixels.values);
  dataset.labels = std::move(classes.values);
  dataset.classes = 1u + *std::max_element(dataset.labels.begin(), dataset.labels.end());
  return dataset;
}

Normalisation NormalisationOf(const ImageDataset& dataset) {
  if (dataset.pixels.empty()) return {};
  // Exact in integers up to 2^64 / 255^2 pixels, so the order of summation plays no part.
  uint64_t sum = 0;
  uint64_t squares = 0;
  for (const uint8_t pixel : dataset.pixels) {
    sum += pixel;
    squares += uint64_t{pixel} * pixel;
  }
  const double count = static_cast<double>(dataset.pixels.size());
  const double mean = static_cast<double>(sum) / count;
  const double variance = static_cast<double>(squares) / count - mean * mean;
  Normalisation normalisation;
  normalisation.mean = static_cast<float>(mean / 255);
  if (variance > 0) normalisation.deviation = static_cast<float>(std::sqrt(variance) / 255);
  return normalisation;
}

}  // namespace weir
