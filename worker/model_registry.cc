// SPDX-License-Identifier: Apache-2.0
#include "worker/model_registry.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "weir/replica.h"
#include "worker/models/models.h"

namespace weir {

ModelRegistry ModelRegistry::WithBuiltins() {
  ModelRegistry registry;
  registry.Add("mlp", CreateMlp);
  registry.Add("resnet", CreateResNet);
  return registry;
}

void ModelRegistry::Add(const std::string& name, ReplicaFactory factory) {
  factories_[name] = std::move(factory);
}

absl::StatusOr<ReplicaFactory> ModelRegistry::Find(const std::string& name) const {
  const auto found = factories_.find(name);
  if (found != factories_.end()) return found->second;
  return absl::NotFoundError(
      absl::StrCat("no model \"", name, "\"; there is ",
                   absl::StrJoin(factories_, ", ", [](std::string* out, const auto& entry) {
                     absl::StrAppend(out, entry.first);
                   })));
}

}  // namespace weir
