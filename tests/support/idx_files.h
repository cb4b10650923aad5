// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace weir {

// Writes a tiny data set in IDX files, uncompressed, as train-images-idx3-ubyte and so on:
// `classes` kinds of 8x8 images that a small network learns in a few steps. The same bytes every
// time.
void WriteIdxFiles(const std::string& folder, int train_examples, int test_examples,
                   int classes = 4);

}  // namespace weir
