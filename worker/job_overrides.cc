// SPDX-License-Identifier: Apache-2.0
#include "worker/job_overrides.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace weir {
namespace {

// Keys of which a job gives one: setting one drops the others.
std::vector<std::vector<std::string>> Choices() {
  return {{"epochs", "steps", "examples"}, {"data.batch.global", "data.batch.per_replica"}};
}

void Remove(YAML::Node node, const std::vector<std::string>& keys) {
  for (size_t i = 0; i + 1 < keys.size(); ++i) {
    if (!node.IsMap() || !node[keys[i]].IsDefined()) return;
    node.reset(node[keys[i]]);
  }
  if (node.IsMap()) node.remove(keys.back());
}

void DropAlternatives(const std::string& path, const YAML::Node& document) {
  for (const auto& choice : Choices()) {
    if (std::find(choice.begin(), choice.end(), path) == choice.end()) continue;
    for (const std::string& other : choice) {
      if (other != path) Remove(document, absl::StrSplit(other, '.'));
    }
  }
}

void Put(YAML::Node node, const std::vector<std::string>& keys, const YAML::Node& value) {
  for (size_t i = 0; i + 1 < keys.size(); ++i) {
    if (!node[keys[i]].IsDefined() || !node[keys[i]].IsMap()) {
      node[keys[i]] = YAML::Node(YAML::NodeType::Map);
    }
    node.reset(node[keys[i]]);
  }
  node[keys.back()] = value;
}

}  // namespace

absl::Status ApplyOverrides(const std::vector<std::string>& overrides, YAML::Node& document,
                            YamlDiagnostics& diagnostics) {
  for (const std::string& text : overrides) {
    const size_t equals = text.find('=');
    const std::string path = text.substr(0, equals);
    const std::vector<std::string> keys = absl::StrSplit(path, '.');
    if (equals == std::string::npos || std::count(keys.begin(), keys.end(), "") > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--set ", text, ": expected key=value, as in data.batch.global=128"));
    }
    try {
      const YAML::Node value = YAML::Load(text.substr(equals + 1));
      DropAlternatives(path, document);
      Put(document, keys, value);
    } catch (const YAML::Exception& error) {
      return absl::InvalidArgumentError(
          absl::StrCat("--set ", text, ": the value is not YAML: ", error.msg));
    }
    diagnostics.AddOverride(path, text);
  }
  return absl::OkStatus();
}

}  // namespace weir
