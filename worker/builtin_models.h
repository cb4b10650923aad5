// SPDX-License-Identifier: Apache-2.0
// What the built-in models are called and which options they take, without LibTorch.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace weir {

struct ModelOption {
  const char* name;
  enum class Type { kCount, kCounts } type;  // kCounts: a list, kept as "256,128"
  const char* default_value;
  std::vector<std::string> choices;  // empty: any
};

struct BuiltinModel {
  const char* name;
  std::vector<ModelOption> options;
};

// "mlp", "resnet". Lives as long as the program.
absl::Span<const BuiltinModel> BuiltinModels();

// nullptr: no such model.
const BuiltinModel* FindBuiltinModel(absl::string_view name);

}  // namespace weir
