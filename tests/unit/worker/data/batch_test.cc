// SPDX-License-Identifier: Apache-2.0
#include "worker/data/batch.h"

#include <gmock/gmock.h>

#include <numeric>
#include <set>
#include <tuple>

namespace weir {
namespace {

// Images of 6 x 6, every pixel different within an image.
ImageDataset Dataset(uint64_t examples) {
  ImageDataset dataset;
  dataset.height = dataset.width = 6;
  dataset.classes = 10;
  for (uint64_t i = 0; i < examples; ++i) {
    dataset.labels.push_back(static_cast<uint8_t>(i % 10));
    for (int p = 0; p < 36; ++p)
      dataset.pixels.push_back(static_cast<uint8_t>(1 + (i + 7 * p) % 255));
  }
  return dataset;
}

TEST(BatchMaker, ABatchIsAFunctionOfSeedAndSlice) {
  const ImageDataset dataset = Dataset(50);
  BatchOptions options;
  options.seed = 3;
  options.augment = true;
  BatchMaker a(dataset, options);
  BatchMaker b(dataset, options);
  b.Training({0, 0, 50});
  const ImageBatch whole = a.Training({1, 0, 50});
  const ImageBatch part = b.Training({1, 10, 20});
  EXPECT_EQ(part.labels,
            std::vector<int64_t>(whole.labels.begin() + 10, whole.labels.begin() + 20));
  EXPECT_EQ(part.images,
            std::vector<float>(whole.images.begin() + 360, whole.images.begin() + 720));
}

TEST(BatchMaker, AnEpochVisitsEachExampleOnce) {
  const ImageDataset dataset = Dataset(50);
  BatchMaker maker(dataset, {});
  ImageBatch batch = maker.Training({0, 0, 50});
  std::vector<int> counts(10);
  for (const int64_t label : batch.labels) ++counts[label];
  EXPECT_THAT(counts, testing::Each(5));
}

TEST(BatchMaker, PlainBatchesAreTheDatasetAsItLies) {
  const ImageDataset dataset = Dataset(5);
  BatchOptions options;
  options.augment = true;
  const ImageBatch batch = BatchMaker(dataset, options).Plain({0, 3, 5});
  EXPECT_THAT(batch.labels, testing::ElementsAre(3, 4));
  EXPECT_FLOAT_EQ(batch.images[0], dataset.pixels[3 * 36] / 255.0f);
}

TEST(BatchMaker, NormalisedPixelsHaveMeanZeroAndVarianceOne) {
  const ImageDataset dataset = Dataset(100);
  BatchOptions options;
  options.normalisation = NormalisationOf(dataset);
  const ImageBatch batch = BatchMaker(dataset, options).Plain({0, 0, 100});
  const double count = static_cast<double>(batch.images.size());
  const double mean = std::accumulate(batch.images.begin(), batch.images.end(), 0.0) / count;
  double variance = 0;
  for (const float pixel : batch.images) variance += (pixel - mean) * (pixel - mean) / count;
  EXPECT_NEAR(mean, 0, 1e-4);
  EXPECT_NEAR(variance, 1, 1e-4);
}

// A shift keeps rows and columns together, so each image must be its original under one of the 50
// moves.
TEST(BatchMaker, AugmentationShiftsByUpToTwoPixelsAndFlips) {
  const ImageDataset dataset = Dataset(200);
  BatchOptions options;
  options.augment = true;
  const ImageBatch moved = BatchMaker(dataset, options).Training({0, 0, 200});
  const ImageBatch plain = BatchMaker(dataset, {}).Training({0, 0, 200});
  std::set<std::tuple<int, int, bool>> moves;
  for (uint64_t i = 0; i < 200; ++i) {
    bool explained = false;
    for (int dy = -2; dy <= 2 && !explained; ++dy) {
      for (int dx = -2; dx <= 2 && !explained; ++dx) {
        for (const bool flip : {false, true}) {
          bool equal = true;
          for (int y = 0; y < 6; ++y) {
            for (int x = 0; x < 6; ++x) {
              const int sy = y - dy;
              const int sx = x - dx;
              const bool inside = sy >= 0 && sy < 6 && sx >= 0 && sx < 6;
              const float expected =
                  inside ? plain.images[i * 36 + sy * 6 + (flip ? 5 - sx : sx)] : 0.0f;
              equal &= moved.images[i * 36 + y * 6 + x] == expected;
            }
          }
          if (equal) {
            explained = true;
            moves.insert({dy, dx, flip});
            break;
          }
        }
      }
    }
    EXPECT_TRUE(explained) << "image " << i;
  }
  EXPECT_GT(moves.size(), 40u);
}

TEST(BatchMaker, AnEmptySliceGivesAnEmptyBatch) {
  const ImageDataset dataset = Dataset(5);
  EXPECT_EQ(BatchMaker(dataset, {}).Training({0, 2, 2}).examples, 0u);
}

}  // namespace
}  // namespace weir
