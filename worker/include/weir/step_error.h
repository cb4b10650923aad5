// SPDX-License-Identifier: Apache-2.0
// C++17; no LibTorch, no protobuf, no gRPC.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace weir {

// How an error leaves `forward` or an autograd function, as no Status can. Immutable, thread-safe.
class StepError : public std::exception {
 public:
  explicit StepError(absl::Status status) : status_(std::move(status)), text_(status_.ToString()) {}

  const absl::Status& status() const { return status_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  absl::Status status_;
  std::string text_;
};

}  // namespace weir
