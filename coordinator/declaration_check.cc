// SPDX-License-Identifier: Apache-2.0
#include "coordinator/declaration_check.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "coordinator/memory_need.h"
#include "coordinator/message_difference.h"
#include "proto/dtype.h"

namespace weir {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 60;  // of a job, so that no sum overflows

// 0 where a dimension is 0; kMostBytes where it is that many or more.
uint64_t ElementsOf(const v1::Variable& variable) {
  uint64_t elements = 1;
  for (const uint64_t size : variable.shape()) {
    if (size == 0) return 0;
    elements = elements > kMostBytes / size ? kMostBytes : elements * size;
  }
  return elements;
}

absl::Status CheckVariable(const v1::Variable& variable, int groups) {
  const auto bad = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("variable '", variable.name(), "': ", what));
  };
  if (variable.name().empty()) return absl::InvalidArgumentError("a variable without a name");
  if (ElementBytes(variable.dtype()) == 0) {
    return bad(absl::StrCat("dtype ", static_cast<int>(variable.dtype()), " is unknown"));
  }
  if (variable.group() > static_cast<uint32_t>(groups)) {
    return bad(absl::StrCat("group ", variable.group(), " is not declared; there are ", groups));
  }
  if (variable.group() > 0 && !IsFloating(variable.dtype())) {
    return bad(absl::StrCat("an optimizer works on DTYPE_F32 and DTYPE_F64, found ",
                            v1::DType_Name(variable.dtype()), "; declare it as state (group 0)"));
  }
  if (variable.group() == 0 && variable.aggregation() == v1::AGGREGATION_MEAN &&
      !IsFloating(variable.dtype())) {
    return bad("MEAN is not defined for integers and bool; use MAX, SUM, MIN, FIRST or LAST_WRITE");
  }
  if (ElementsOf(variable) >= kMostBytes / ElementBytes(variable.dtype())) return bad("too large");
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckDeclaration(const v1::Declaration& declaration) {
  absl::flat_hash_set<std::string> names;
  uint64_t bytes = 0;
  for (const v1::Variable& variable : declaration.variables()) {
    WEIR_RETURN_IF_ERROR(CheckVariable(variable, declaration.groups_size()));
    if (!names.insert(variable.name()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("variable '", variable.name(), "' is declared twice"));
    }
    bytes += ElementsOf(variable) * ElementBytes(variable.dtype());
    if (bytes >= kMostBytes) return absl::InvalidArgumentError("the job's variables: too large");
  }
  absl::flat_hash_set<std::string> groups;
  for (const v1::OptimizerGroup& group : declaration.groups()) {
    if (!groups.insert(group.name()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("optimizer group '", group.name(), "' is declared twice"));
    }
    if (group.optimizer().kind_case() == v1::Optimizer::KIND_NOT_SET) {
      return absl::InvalidArgumentError(
          absl::StrCat("optimizer group '", group.name(), "' has no optimizer"));
    }
  }
  return absl::OkStatus();
}

std::vector<VariableExtent> ExtentsOf(const v1::Declaration& declaration) {
  std::vector<VariableExtent> extents;
  extents.reserve(declaration.variables_size());
  for (const v1::Variable& variable : declaration.variables()) {
    extents.push_back(
        {.elements = ElementsOf(variable), .element_bytes = ElementBytes(variable.dtype())});
  }
  return extents;
}

absl::optional<std::string> DeclarationDifference(const v1::Declaration& there,
                                                  const v1::Declaration& here) {
  const auto difference = FirstDifference(there, here);
  if (!difference) return absl::nullopt;
  const std::string text = absl::StrCat(difference->key, " is ", difference->left, " there and ",
                                        difference->right, " here");
  // Variables come first in a declaration: where one of them differs, the text is about the first.
  for (int i = 0; i < std::min(there.variables_size(), here.variables_size()); ++i) {
    const v1::Variable& variable = there.variables(i);
    if (!FirstDifference(variable, here.variables(i))) continue;
    return absl::StrCat("variable '", variable.name(), "': ", text);
  }
  return text;
}

absl::Status CheckRestorable(const v1::Declaration& saved, const v1::Declaration& wanted) {
  v1::Declaration saved_variables = saved;
  v1::Declaration wanted_variables = wanted;
  saved_variables.clear_groups();
  wanted_variables.clear_groups();
  const auto difference = DeclarationDifference(saved_variables, wanted_variables);
  if (difference) {
    return absl::FailedPreconditionError(
        absl::StrCat("the checkpoint is of another model: ", *difference));
  }
  if (saved.groups_size() != wanted.groups_size()) {
    return absl::FailedPreconditionError(absl::StrCat("the checkpoint has ", saved.groups_size(),
                                                      " optimizer groups, the job ",
                                                      wanted.groups_size()));
  }
  for (int i = 0; i < saved.groups_size(); ++i) {
    const v1::Optimizer& there = saved.groups(i).optimizer();
    const v1::Optimizer& here = wanted.groups(i).optimizer();
    if (there.kind_case() != here.kind_case() || SlotsOf(there) != SlotsOf(here)) {
      return absl::FailedPreconditionError(absl::StrCat("the checkpoint's optimizer '",
                                                        saved.groups(i).name(),
                                                        "' keeps other state than the job's"));
    }
  }
  return absl::OkStatus();
}

}  // namespace weir
