// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace weir {

class Replica;
class ReplicaContext;

using ReplicaFactory = std::function<std::unique_ptr<Replica>(ReplicaContext&)>;

// Models by name. Thread-compatible.
class ModelRegistry {
 public:
  // With the built-in models in it.
  static ModelRegistry WithBuiltins();

  void Add(const std::string& name, ReplicaFactory factory);
  // Errors: NotFound - no model of this name; lists those there are.
  absl::StatusOr<ReplicaFactory> Find(const std::string& name) const;

 private:
  std::map<std::string, ReplicaFactory> factories_;
};

}  // namespace weir
