// SPDX-License-Identifier: Apache-2.0
#include "worker/yaml_diagnostics.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace weir {
void YamlDiagnostics::Report(absl::string_view path, int line, absl::string_view message) {
  std::string where = line > 0 ? absl::StrCat(file_, ":", line) : file_;
  for (const auto& [prefix, text] : overrides_) {
    if (path == prefix || absl::StartsWith(path, prefix + ".") ||
        absl::StartsWith(prefix, absl::StrCat(path, "."))) {
      if (path == prefix || absl::StartsWith(path, prefix + ".") || line == 0) {
        where = absl::StrCat("--set ", text);
      }
    }
  }
  errors_.push_back(path.empty() ? absl::StrCat(where, ": ", message)
                                 : absl::StrCat(where, ": ", path, ": ", message));
}

absl::Status YamlDiagnostics::status() const {
  if (errors_.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(errors_, "\n"));
}

}  // namespace weir
