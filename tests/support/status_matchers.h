// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weir {

inline const absl::Status& StatusOf(const absl::Status& status) {
  return status;
}
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& value) {
  return value.status();
}

// EXPECT_THAT(f(), IsOk());
MATCHER(IsOk, negation ? "is not OK" : "is OK") {
  *result_listener << StatusOf(arg);
  return StatusOf(arg).ok();
}

// EXPECT_THAT(f(), HasStatus(absl::StatusCode::kNotFound, HasSubstr("weights")));
MATCHER_P2(HasStatus, code, message, "") {
  *result_listener << StatusOf(arg);
  return StatusOf(arg).code() == code &&
         ::testing::ExplainMatchResult(message, std::string(StatusOf(arg).message()),
                                       result_listener);
}

}  // namespace weir

#define WEIR_ASSERT_OK(expr) ASSERT_THAT(expr, ::weir::IsOk())
#define WEIR_EXPECT_OK(expr) EXPECT_THAT(expr, ::weir::IsOk())
// Assigns the value to lhs or fails the test.
#define WEIR_ASSERT_OK_AND_ASSIGN(lhs, expr) \
  WEIR_ASSERT_OK_AND_ASSIGN_IMPL_(WEIR_TEST_CONCAT_(status_or_, __LINE__), lhs, expr)
#define WEIR_ASSERT_OK_AND_ASSIGN_IMPL_(status_or, lhs, expr) \
  auto status_or = (expr);                                    \
  ASSERT_THAT(status_or, ::weir::IsOk());                     \
  lhs = *std::move(status_or)
#define WEIR_TEST_CONCAT_(a, b) WEIR_TEST_CONCAT_INNER_(a, b)
#define WEIR_TEST_CONCAT_INNER_(a, b) a##b
