// SPDX-License-Identifier: Apache-2.0
#include "weir/variable.h"

#include "proto/dtype.h"

namespace weir {

size_t SizeOf(DType dtype) {
  return ElementBytes(static_cast<v1::DType>(dtype));
}

uint64_t VariableSpec::elements() const {
  uint64_t product = 1;
  for (const uint64_t extent : shape) product *= extent;
  return product;
}

}  // namespace weir
