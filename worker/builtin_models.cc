// SPDX-License-Identifier: Apache-2.0
#include "worker/builtin_models.h"

namespace weir {

absl::Span<const BuiltinModel> BuiltinModels() {
  using Type = ModelOption::Type;
  static const std::vector<BuiltinModel> models = {
      {"mlp", {{"hidden", Type::kCounts, "256", {}}}},
      {"resnet",
       {{"depth", Type::kCount, "8", {"8", "14", "20"}}, {"width", Type::kCount, "16", {}}}},
  };
  return models;
}

const BuiltinModel* FindBuiltinModel(absl::string_view name) {
  for (const BuiltinModel& model : BuiltinModels()) {
    if (name == model.name) return &model;
  }
  return nullptr;
}

}  // namespace weir
