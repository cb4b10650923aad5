// SPDX-License-Identifier: Apache-2.0
// Small files as strings.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weir {

// Errors: those of FileSystem.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

// Written aside and renamed: a reader sees the old text or the new one. Folders are made if absent.
// Errors: those of FileSystem.
absl::Status WriteTextFile(const std::string& path, const std::string& text);

}  // namespace weir
