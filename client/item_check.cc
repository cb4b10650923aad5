// SPDX-License-Identifier: Apache-2.0
#include "client/item_check.h"

#include <cmath>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/finite_check.h"
#include "common/status_macros.h"
#include "rpc/errors.h"

namespace weir {
namespace {

// Of one item; `seen` is by variable.
absl::Status CheckItem(const Routes& routes, size_t variable, bool has_data, size_t bytes,
                       std::vector<bool>& seen) {
  if (variable >= routes.num_variables()) {
    return absl::InvalidArgumentError(absl::StrCat("variable ", variable, " is unknown; ",
                                                   routes.num_variables(), " are declared"));
  }
  const v1::Variable& spec = routes.variable(variable);
  if (has_data && bytes != routes.bytes(variable)) {
    return absl::InvalidArgumentError(
        absl::StrCat("variable '", spec.name(), "' has ", routes.bytes(variable), " bytes (",
                     v1::DType_Name(spec.dtype()), ", ", routes.elements(variable), " elements); ",
                     bytes, " were given"));
  }
  if (seen[variable]) {
    return absl::InvalidArgumentError(absl::StrCat("variable '", spec.name(), "' comes twice"));
  }
  seen[variable] = true;
  return absl::OkStatus();
}

absl::Status CheckOptions(const Routes& routes, const PushOptions& options, bool all_absent) {
  if (options.group > static_cast<uint32_t>(routes.view().declaration().groups_size())) {
    return absl::InvalidArgumentError(absl::StrCat("optimizer group ", options.group, " of ",
                                                   routes.view().declaration().groups_size(),
                                                   " does not exist"));
  }
  if (!std::isfinite(options.weight) || options.weight < 0 ||
      (options.weight == 0 && !all_absent)) {
    return absl::InvalidArgumentError(
        absl::StrCat("weight ", options.weight, " of a push: it must be positive and finite"));
  }
  if (!std::isfinite(options.rate_scale) || options.rate_scale <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("rate_scale ", options.rate_scale, ": it must be positive and finite"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPull(const Routes& routes, absl::Span<const PullItem> items) {
  std::vector<bool> seen(routes.num_variables());
  for (const PullItem& item : items) {
    WEIR_RETURN_IF_ERROR(CheckItem(routes, item.variable, true, item.bytes, seen));
    if (item.data == nullptr && item.bytes > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("no memory to pull '", routes.variable(item.variable).name(), "' into"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPush(const Routes& routes, WorkerId worker, absl::Span<const PushItem> items,
                       const PushOptions& options) {
  std::vector<bool> seen(routes.num_variables());
  bool all_absent = true;
  for (const PushItem& item : items) {
    WEIR_RETURN_IF_ERROR(CheckItem(routes, item.variable, item.data != nullptr, item.bytes, seen));
    const v1::Variable& spec = routes.variable(item.variable);
    if (spec.group() != options.group) {
      return absl::InvalidArgumentError(absl::StrCat("variable '", spec.name(), "' is of group ",
                                                     spec.group(), ", the push of group ",
                                                     options.group));
    }
    all_absent = all_absent && item.data == nullptr;
  }
  WEIR_RETURN_IF_ERROR(CheckOptions(routes, options, all_absent));
  if (options.group == 0) return absl::OkStatus();
  for (const PushItem& item : items) {
    if (item.data == nullptr) continue;
    const v1::Variable& spec = routes.variable(item.variable);
    const std::optional<uint64_t> bad =
        FirstNotFinite(spec.dtype(), item.data, routes.elements(item.variable));
    if (bad.has_value()) return NotFinite(spec.name(), *bad, worker, options.step);
  }
  return absl::OkStatus();
}

absl::Status CheckAssign(const Routes& routes, absl::Span<const PushItem> items) {
  std::vector<bool> seen(routes.num_variables());
  for (const PushItem& item : items) {
    WEIR_RETURN_IF_ERROR(CheckItem(routes, item.variable, true, item.bytes, seen));
    if (item.data == nullptr && item.bytes > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("no initial value for '", routes.variable(item.variable).name(), "'"));
    }
  }
  for (size_t variable = 0; variable < seen.size(); ++variable) {
    if (!seen[variable]) {
      return absl::InvalidArgumentError(
          absl::StrCat("no initial value for '", routes.variable(variable).name(), "'"));
    }
  }
  return absl::OkStatus();
}

}  // namespace weir
