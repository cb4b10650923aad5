// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the enclosing function where `expr`, an absl::Status, is not OK.
#define WEIR_RETURN_IF_ERROR(expr)                                                     \
  do {                                                                                 \
    if (::absl::Status weir_status_ = (expr); !weir_status_.ok()) return weir_status_; \
  } while (false)

// Assigns the value of `expr`, an absl::StatusOr, to `lhs` (which may be a declaration), or returns
// its status from the enclosing function.
#define WEIR_ASSIGN_OR_RETURN(lhs, expr) \
  WEIR_ASSIGN_OR_RETURN_IMPL_(WEIR_CONCAT_(weir_status_or_, __LINE__), lhs, expr)

#define WEIR_ASSIGN_OR_RETURN_IMPL_(status_or, lhs, expr)    \
  auto status_or = (expr);                                   \
  if (!status_or.ok()) return std::move(status_or).status(); \
  lhs = *std::move(status_or)
#define WEIR_CONCAT_(a, b) WEIR_CONCAT_INNER_(a, b)
#define WEIR_CONCAT_INNER_(a, b) a##b
