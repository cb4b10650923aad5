// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "weir/replica_class.h"

namespace weir {

// Models by name, and the replica class that a program of one's own brings. Thread-compatible.
class ModelRegistry {
 public:
  // With the built-in models in it.
  static ModelRegistry WithBuiltins();

  void Add(const std::string& name, ReplicaClass replica_class);
  // Errors: NotFound - no model of this name; lists those there are.
  absl::StatusOr<ReplicaClass> Find(const std::string& name) const;

  void SetReplica(ReplicaClass replica_class) { replica_ = std::move(replica_class); }
  // Errors: NotFound - the program has none; names what the job wants.
  absl::StatusOr<ReplicaClass> FindReplica(const std::string& name) const;

 private:
  std::map<std::string, ReplicaClass> classes_;
  absl::optional<ReplicaClass> replica_;
};

}  // namespace weir
