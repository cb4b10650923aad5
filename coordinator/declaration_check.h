// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "sharding/layout.h"
#include "weir/v1/variables.pb.h"

namespace weir {

// Errors: InvalidArgument - names variable or group, and the field that makes no sense.
absl::Status CheckDeclaration(const v1::Declaration& declaration);

// Sizes of the variables of a checked declaration, for sharding.
std::vector<VariableExtent> ExtentsOf(const v1::Declaration& declaration);

// The first field in which they differ, with the name of its variable and both values. Nothing
// where they are equal.
absl::optional<std::string> DeclarationDifference(const v1::Declaration& there,
                                                  const v1::Declaration& here);

// Whether a checkpoint of `saved` can be loaded into `wanted`: equal variables and kinds of
// optimizers; rates and other options may differ.
// Errors: FailedPrecondition - names the first difference.
absl::Status CheckRestorable(const v1::Declaration& saved, const v1::Declaration& wanted);

}  // namespace weir
