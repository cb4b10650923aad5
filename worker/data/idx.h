// SPDX-License-Identifier: Apache-2.0
// The IDX format: big-endian magic {0, 0, type, dimensions}, one 32-bit size a dimension, the
// elements (http://yann.lecun.com/exdb/mnist). Unsigned bytes only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace weir {

struct IdxArray {
  std::vector<uint64_t> shape;
  std::vector<uint8_t> values;
};

// Reads a plain or a gzipped file; `dimensions` is what the caller expects.
// Errors, all naming the file: NotFound - it cannot be opened; InvalidArgument - not IDX, another
// type or number of dimensions, a size beyond 4 GiB: names the field; DataLoss - it ends early,
// goes on after the last element, or its checksum is wrong.
absl::StatusOr<IdxArray> ReadIdx(const std::string& path, int dimensions);

// The shape alone, without reading the elements. The same errors.
absl::StatusOr<std::vector<uint64_t>> ReadIdxShape(const std::string& path, int dimensions);

}  // namespace weir
