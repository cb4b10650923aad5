// SPDX-License-Identifier: Apache-2.0
#include "worker/torch_dtype.h"

#include "absl/strings/str_cat.h"
#include "weir/step_error.h"

namespace weir {

DType DTypeOf(const std::string& what, c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Float:
      return DType::kFloat32;
    case c10::ScalarType::Double:
      return DType::kFloat64;
    case c10::ScalarType::Int:
      return DType::kInt32;
    case c10::ScalarType::Long:
      return DType::kInt64;
    case c10::ScalarType::Bool:
      return DType::kBool;
    default:
      throw StepError(absl::InvalidArgumentError(
          absl::StrCat(what, " cannot be of dtype ", c10::toString(type))));
  }
}

}  // namespace weir
