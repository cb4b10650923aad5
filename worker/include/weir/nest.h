// SPDX-License-Identifier: Apache-2.0
// C++17; no protobuf, no gRPC.
#pragma once

#include <torch/types.h>

#include <initializer_list>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "weir/step_error.h"

namespace weir {

// Named tensors: the inputs of a step and what it returns. Used from one thread.
class Nest {
 public:
  Nest() = default;
  Nest(std::initializer_list<std::pair<const std::string, torch::Tensor>> tensors)
      : tensors_(tensors) {}

  // Throws StepError with NotFound, naming what there is.
  const torch::Tensor& operator[](const std::string& name) const {
    const auto found = tensors_.find(name);
    if (found != tensors_.end()) return found->second;
    std::string names;
    for (const auto& entry : tensors_) names += (names.empty() ? "" : ", ") + entry.first;
    throw StepError(absl::NotFoundError("no tensor \"" + name + "\" here; there is: " + names));
  }
  void Set(const std::string& name, torch::Tensor tensor) { tensors_[name] = std::move(tensor); }

  auto begin() const { return tensors_.begin(); }
  auto end() const { return tensors_.end(); }

 private:
  std::map<std::string, torch::Tensor> tensors_;
};

}  // namespace weir
