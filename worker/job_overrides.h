// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/yaml_diagnostics.h"

namespace weir {

// Puts each "dotted.key=value" into the document; the value is YAML. A value that stands in the
// place of a choice (epochs for steps, data.batch.global for data.batch.per_replica) replaces it.
// Errors: InvalidArgument - no '=', an empty key, a value that is not YAML.
absl::Status ApplyOverrides(const std::vector<std::string>& overrides, YAML::Node& document,
                            YamlDiagnostics& diagnostics);

}  // namespace weir
