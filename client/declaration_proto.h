// SPDX-License-Identifier: Apache-2.0
// Between the public structs of a declaration and the messages of variables.proto.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "weir/v1/variables.pb.h"
#include "weir/variable.h"

namespace weir {

// Every field is written, also those that equal protobuf's zero.
v1::Declaration ToProto(const Declaration& declaration);

// Errors: InvalidArgument - as CheckWellFormed.
absl::StatusOr<Declaration> FromProto(const v1::Declaration& declaration);

// What a declaration must satisfy whoever sent it: names that are unique and not empty, known
// dtypes, an element count whose bytes fit in 63 bits, groups that exist, an optimizer in each
// group, floating-point parameters, and no mean of integers. Errors: InvalidArgument - names the
// variable or group, and the field.
absl::Status CheckWellFormed(const v1::Declaration& declaration);

// The elements of a variable whose declaration has been checked.
uint64_t ElementsOf(const v1::Variable& variable);

}  // namespace weir
