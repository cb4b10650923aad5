// SPDX-License-Identifier: Apache-2.0
// What everybody must know alike of the dtypes in the messages.
#pragma once

#include <cstdint>

#include "weir/v1/variables.pb.h"

namespace weir {

// Bytes of one element; 0: not a dtype that we know.
inline uint32_t ElementBytes(v1::DType dtype) {
  switch (dtype) {
    case v1::DTYPE_F32:
    case v1::DTYPE_I32:
      return 4;
    case v1::DTYPE_F64:
    case v1::DTYPE_I64:
      return 8;
    case v1::DTYPE_BOOL:
      return 1;
    default:
      return 0;
  }
}

inline bool IsFloating(v1::DType dtype) {
  return dtype == v1::DTYPE_F32 || dtype == v1::DTYPE_F64;
}

}  // namespace weir
