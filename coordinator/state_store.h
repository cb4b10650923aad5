// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"

namespace weir {

// By key: the new value, or nothing where the key goes.
using StateChanges = std::map<std::string, absl::optional<std::string>>;

// Where the coordinator keeps what it must know after a restart. Thread-safe.
class StateStore {
 public:
  virtual ~StateStore() = default;

  // Everything that is kept.
  // Errors: DataLoss - damaged; Unavailable - the disk.
  virtual absl::StatusOr<std::map<std::string, std::string>> Load() = 0;

  // All changes or none; durable when it returns OK.
  // Errors: Unavailable - the disk; may be tried again.
  virtual absl::Status Write(const StateChanges& changes) = 0;
};

}  // namespace weir
