// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "weir/v1/job_spec.pb.h"
#include "worker/yaml_diagnostics.h"

namespace weir {

class YamlMap;

// A value at its path in a document. A value of another form than asked for is reported, with what
// was expected, and read as nullopt. Borrows the diagnostics. Thread-compatible.
class YamlValue {
 public:
  YamlValue(YAML::Node node, std::string path, YamlDiagnostics& diagnostics)
      : node_(std::move(node)), path_(std::move(path)), diagnostics_(&diagnostics) {}

  bool is_map() const { return node_.IsMap(); }
  bool is_list() const { return node_.IsSequence(); }
  bool is_scalar() const { return node_.IsScalar(); }
  const std::string& path() const { return path_; }

  std::optional<std::string> String() const;  // any scalar, by its text
  std::optional<std::string> OneOf(const std::vector<std::string>& words) const;
  std::optional<bool> Bool() const;
  std::optional<double> Number(double minimum) const;
  std::optional<uint64_t> Count(uint64_t minimum = 0) const;
  std::optional<v1::Extent> Extent() const;    // epochs, steps, examples
  std::optional<v1::Extent> Interval() const;  // the same, or a time
  std::optional<absl::Duration> Time() const;
  std::optional<uint64_t> Bytes() const;
  std::optional<YamlMap> Map() const;
  std::vector<YamlValue> List() const;

  void Report(absl::string_view message) const;

 private:
  std::optional<std::string> Plain(absl::string_view expected) const;
  void Expected(absl::string_view expected) const;

  YAML::Node node_;
  std::string path_;
  YamlDiagnostics* diagnostics_;
};

// A mapping whose known keys are those that were asked for. Thread-compatible.
class YamlMap {
 public:
  YamlMap(YAML::Node node, std::string path, YamlDiagnostics& diagnostics);

  // nullopt: not given.
  std::optional<YamlValue> Get(const std::string& key);
  // A key of a later release: reported where it is given.
  void NotYet(const std::string& key, absl::string_view what);
  // All keys as they are, for maps whose keys are names.
  std::vector<std::string> Keys() const;
  // Reports the keys that were given and never asked for, with the nearest known one.
  void Finish() const;
  // About the mapping as a whole.
  void Report(absl::string_view message) const;

 private:
  std::string PathOf(const std::string& key) const;

  YAML::Node node_;
  std::string path_;
  YamlDiagnostics* diagnostics_;
  std::vector<std::string> known_;
};

}  // namespace weir
