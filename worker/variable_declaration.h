// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/types.h>

#include <optional>
#include <string>

#include "worker/replica_parts.h"

namespace weir {

// Which variable a tensor is.
std::optional<size_t> FindVariable(const ReplicaParts& parts, const torch::Tensor& tensor);

// Declares the tensor as state, unless it is undefined or a variable already (tied: one variable
// under the first name). Throws StepError: InvalidArgument - it shares memory with another tensor,
// or a dtype that no variable can have.
void DeclareVariable(ReplicaParts& parts, const std::string& name, const torch::Tensor& tensor,
                     Aggregation aggregation);

}  // namespace weir
