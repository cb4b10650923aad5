// SPDX-License-Identifier: Apache-2.0
#include "worker/yaml_value.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/nearest_word.h"
#include "worker/scalar_text.h"

namespace weir {
namespace {

int LineOf(const YAML::Node& node) {
  return node.Mark().is_null() ? 0 : node.Mark().line + 1;
}

std::string Described(const YAML::Node& node) {
  if (node.IsMap()) return "a mapping";
  if (node.IsSequence()) return "a list";
  if (node.IsNull() || !node.IsDefined()) return "nothing";
  const bool quoted = node.Tag() == "!";
  return absl::StrCat(quoted ? "the string \"" : "\"", node.Scalar(), "\"");
}

}  // namespace

void YamlValue::Report(absl::string_view message) const {
  diagnostics_->Report(path_, LineOf(node_), message);
}

void YamlValue::Expected(absl::string_view expected) const {
  Report(absl::StrCat("expected ", expected, ", found ", Described(node_)));
}

// A quoted scalar is a string and nothing else.
std::optional<std::string> YamlValue::Plain(absl::string_view expected) const {
  if (node_.IsScalar() && node_.Tag() != "!") return node_.Scalar();
  Expected(expected);
  return std::nullopt;
}

std::optional<std::string> YamlValue::String() const {
  if (node_.IsScalar()) return node_.Scalar();
  Expected("a string");
  return std::nullopt;
}

std::optional<std::string> YamlValue::OneOf(const std::vector<std::string>& words) const {
  const std::string expected = absl::StrCat("one of ", absl::StrJoin(words, ", "));
  if (!node_.IsScalar()) {
    Expected(expected);
    return std::nullopt;
  }
  const std::string word = node_.Scalar();
  if (std::find(words.begin(), words.end(), word) != words.end()) return word;
  // Numbers are near each other by accident.
  const bool number = !words[0].empty() && absl::ascii_isdigit(words[0][0]);
  const std::string nearest = number ? "" : NearestWord(word, words);
  Report(absl::StrCat("expected ", expected, ", found \"", word, "\"",
                      nearest.empty() ? "" : absl::StrCat("; did you mean \"", nearest, "\"?")));
  return std::nullopt;
}

std::optional<bool> YamlValue::Bool() const {
  const auto text = Plain("true or false");
  if (!text) return std::nullopt;
  const auto value = ParseBool(*text);
  if (!value) Expected("true or false");
  return value;
}

std::optional<double> YamlValue::Number(double minimum) const {
  const std::string expected = minimum == 0
                                   ? "a number, 0 or more"
                                   : absl::StrCat("a number of at least ", FormatNumber(minimum));
  const auto text = Plain(expected);
  if (!text) return std::nullopt;
  const auto value = ParseNumber(*text);
  if (value && *value >= minimum) return value;
  Expected(expected);
  return std::nullopt;
}

std::optional<uint64_t> YamlValue::Count(uint64_t minimum) const {
  const std::string expected = absl::StrCat("a whole number, ", minimum, " or more");
  const auto text = Plain(expected);
  if (!text) return std::nullopt;
  const auto value = ParseCount(*text);
  if (value && *value >= minimum) return value;
  Expected(expected);
  return std::nullopt;
}

std::optional<v1::Extent> YamlValue::Extent() const {
  static constexpr char kExpected[] = "a length such as 2 epochs, 500 steps or 60000 examples";
  const auto text = Plain(kExpected);
  if (!text) return std::nullopt;
  auto extent = ParseExtent(*text);
  if (extent && !extent->has_seconds()) return extent;
  Expected(kExpected);
  return std::nullopt;
}

std::optional<v1::Extent> YamlValue::Interval() const {
  static constexpr char kExpected[] =
      "an interval above 0 such as 1 epoch, 500 steps, 60000 examples or 5 min";
  const auto text = Plain(kExpected);
  if (!text) return std::nullopt;
  auto extent = ParseExtent(*text);
  if (extent && (extent->epochs() > 0 || extent->steps() > 0 || extent->examples() > 0 ||
                 extent->seconds() > 0)) {
    return extent;
  }
  Expected(kExpected);
  return std::nullopt;
}

std::optional<absl::Duration> YamlValue::Time() const {
  static constexpr char kExpected[] = "a time such as 500 ms, 30 s, 10 min or 2 h";
  const auto text = Plain(kExpected);
  if (!text) return std::nullopt;
  const auto time = ParseTime(*text);
  if (!time) Expected(kExpected);
  return time;
}

std::optional<uint64_t> YamlValue::Bytes() const {
  static constexpr char kExpected[] = "a size such as 262144, 256 KiB or 2 GiB";
  const auto text = Plain(kExpected);
  if (!text) return std::nullopt;
  const auto bytes = ParseBytes(*text);
  if (!bytes) Expected(kExpected);
  return bytes;
}

std::optional<YamlMap> YamlValue::Map() const {
  if (node_.IsMap()) return YamlMap(node_, path_, *diagnostics_);
  Expected("a mapping");
  return std::nullopt;
}

std::vector<YamlValue> YamlValue::List() const {
  std::vector<YamlValue> values;
  if (!node_.IsSequence()) {
    Expected("a list");
    return values;
  }
  for (size_t i = 0; i < node_.size(); ++i) {
    values.emplace_back(node_[i], absl::StrCat(path_, "[", i, "]"), *diagnostics_);
  }
  return values;
}

YamlMap::YamlMap(YAML::Node node, std::string path, YamlDiagnostics& diagnostics)
    : node_(std::move(node)), path_(std::move(path)), diagnostics_(&diagnostics) {}

std::string YamlMap::PathOf(const std::string& key) const {
  return path_.empty() ? key : absl::StrCat(path_, ".", key);
}

std::optional<YamlValue> YamlMap::Get(const std::string& key) {
  known_.push_back(key);
  const YAML::Node& node = node_;
  const YAML::Node child = node[key];
  if (!child.IsDefined()) return std::nullopt;
  return YamlValue(child, PathOf(key), *diagnostics_);
}

void YamlMap::NotYet(const std::string& key, absl::string_view what) {
  const auto value = Get(key);
  known_.pop_back();
  if (value) {
    value->Report(absl::StrCat("is not supported yet: ", what));
    known_.push_back(key);
  }
}

std::vector<std::string> YamlMap::Keys() const {
  std::vector<std::string> keys;
  for (const auto& entry : node_) {
    if (entry.first.IsScalar()) keys.push_back(entry.first.Scalar());
  }
  return keys;
}

void YamlMap::Finish() const {
  std::set<std::string> seen;
  for (const auto& entry : node_) {
    const int line = LineOf(entry.first);
    if (!entry.first.IsScalar()) {
      diagnostics_->Report(path_, line, "expected a key, found a mapping or a list");
      continue;
    }
    const std::string key = entry.first.Scalar();
    if (!seen.insert(key).second) diagnostics_->Report(PathOf(key), line, "is given twice");
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    const std::string nearest = NearestWord(key, known_);
    diagnostics_->Report(
        PathOf(key), line,
        nearest.empty() ? absl::StrCat("unknown key; expected one of ", absl::StrJoin(known_, ", "))
                        : absl::StrCat("unknown key; did you mean \"", nearest, "\"?"));
  }
}

void YamlMap::Report(absl::string_view message) const {
  diagnostics_->Report(path_, LineOf(node_), message);
}

}  // namespace weir
