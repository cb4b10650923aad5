// SPDX-License-Identifier: Apache-2.0
#include "tests/support/idx_files.h"

#include <cstdint>
#include <fstream>
#include <random>

namespace weir {
namespace {

constexpr int kSide = 8;

void WriteBigEndian(std::ofstream& file, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) file.put(static_cast<char>(value >> shift & 0xff));
}

// Class k lights row k; the rest is noise.
void WriteSet(const std::string& prefix, int examples, int classes, uint32_t seed) {
  std::mt19937 random(seed);
  std::ofstream images(prefix + "-images-idx3-ubyte", std::ios::binary);
  std::ofstream labels(prefix + "-labels-idx1-ubyte", std::ios::binary);
  WriteBigEndian(images, 0x0803);
  WriteBigEndian(labels, 0x0801);
  for (std::ofstream* file : {&images, &labels}) WriteBigEndian(*file, examples);
  WriteBigEndian(images, kSide);
  WriteBigEndian(images, kSide);
  for (int i = 0; i < examples; ++i) {
    const int label = i % classes;
    labels.put(static_cast<char>(label));
    for (int pixel = 0; pixel < kSide * kSide; ++pixel) {
      const uint32_t noise = random() % 64;
      images.put(static_cast<char>(pixel / kSide == label ? 190 + noise : noise));
    }
  }
}

}  // namespace

void WriteIdxFiles(const std::string& folder, int train_examples, int test_examples, int classes) {
  WriteSet(folder + "/train", train_examples, classes, 1);
  WriteSet(folder + "/t10k", test_examples, classes, 2);
}

}  // namespace weir
