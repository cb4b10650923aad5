// SPDX-License-Identifier: Apache-2.0
#include "worker/model_registry.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "weir/replica.h"
#include "worker/models/models.h"

namespace weir {

ModelRegistry ModelRegistry::WithBuiltins() {
  ModelRegistry registry;
  registry.Add("mlp", {CreateMlp, nullptr});
  registry.Add("resnet", {CreateResNet, nullptr});
  return registry;
}

void ModelRegistry::Add(const std::string& name, ReplicaClass replica_class) {
  classes_[name] = std::move(replica_class);
}

absl::StatusOr<ReplicaClass> ModelRegistry::Find(const std::string& name) const {
  const auto found = classes_.find(name);
  if (found != classes_.end()) return found->second;
  return absl::NotFoundError(
      absl::StrCat("no model \"", name, "\"; there is ",
                   absl::StrJoin(classes_, ", ", [](std::string* out, const auto& entry) {
                     absl::StrAppend(out, entry.first);
                   })));
}

absl::StatusOr<ReplicaClass> ModelRegistry::FindReplica(const std::string& name) const {
  if (replica_) return *replica_;
  return absl::NotFoundError(absl::StrCat(
      "the job trains the replica class \"", name,
      "\", and this program has none: start the program that calls weir::Run with it"));
}

}  // namespace weir
