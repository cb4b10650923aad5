// SPDX-License-Identifier: Apache-2.0
#include "worker/variable_declaration.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/torch_dtype.h"

namespace weir {

std::optional<size_t> FindVariable(const ReplicaParts& parts, const torch::Tensor& tensor) {
  const auto found =
      std::find_if(parts.tensors.begin(), parts.tensors.end(),
                   [&](const torch::Tensor& known) { return known.is_same(tensor); });
  if (found == parts.tensors.end()) return std::nullopt;
  return static_cast<size_t>(found - parts.tensors.begin());
}

void DeclareVariable(ReplicaParts& parts, const std::string& name, const torch::Tensor& tensor,
                     Aggregation aggregation) {
  if (!tensor.defined() || FindVariable(parts, tensor)) return;
  for (size_t i = 0; i < parts.tensors.size(); ++i) {
    if (tensor.numel() == 0 || !parts.tensors[i].is_alias_of(tensor)) continue;
    throw StepError(absl::InvalidArgumentError(
        absl::StrCat(name, " shares memory with ", parts.declaration.variables[i].name,
                     " but is another tensor: tie them by registering the same one")));
  }
  VariableSpec variable;
  variable.name = name;
  variable.dtype = DTypeOf(absl::StrCat("variable ", name), tensor.scalar_type());
  for (const int64_t size : tensor.sizes()) variable.shape.push_back(static_cast<uint64_t>(size));
  variable.group = 0;
  variable.aggregation = aggregation;
  parts.declaration.variables.push_back(variable);
  parts.tensors.push_back(tensor);
}

}  // namespace weir
