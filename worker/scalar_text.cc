// SPDX-License-Identifier: Apache-2.0
#include "worker/scalar_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace weir {
namespace {

// "12.5 epochs" -> {12.5, "epochs"}; the blank between may be missing.
std::optional<std::pair<double, std::string>> SplitQuantity(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  size_t unit = text.size();
  while (unit > 0 && absl::ascii_isalpha(text[unit - 1])) --unit;
  const auto number = ParseNumber(absl::StripAsciiWhitespace(text.substr(0, unit)));
  if (!number) return std::nullopt;
  return std::make_pair(*number, std::string(text.substr(unit)));
}

std::optional<uint64_t> AsCount(double value) {
  if (value < 0 || value != std::floor(value) || value >= 9007199254740992.0) return std::nullopt;
  return static_cast<uint64_t>(value);
}

std::optional<double> SecondsOf(absl::string_view unit) {
  struct Unit {
    const char* name;
    double seconds;
  };
  static constexpr std::array<Unit, 15> kUnits = {{{"ms", 1e-3},
                                                   {"s", 1},
                                                   {"sec", 1},
                                                   {"second", 1},
                                                   {"seconds", 1},
                                                   {"min", 60},
                                                   {"minute", 60},
                                                   {"minutes", 60},
                                                   {"h", 3600},
                                                   {"hour", 3600},
                                                   {"hours", 3600},
                                                   {"d", 86400},
                                                   {"day", 86400},
                                                   {"days", 86400},
                                                   {"m", 60}}};
  for (const Unit& known : kUnits) {
    if (unit == known.name) return known.seconds;
  }
  return std::nullopt;
}

}  // namespace

std::optional<double> ParseNumber(absl::string_view text) {
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  // Keeps out what strtod would take beyond numbers: inf, nan, hexadecimal.
  for (const char c : text) {
    if (!absl::ascii_isdigit(c) && c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E') {
      return std::nullopt;
    }
  }
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<uint64_t> ParseCount(absl::string_view text) {
  uint64_t value = 0;
  if (absl::SimpleAtoi(text, &value)) return value;
  const auto number = ParseNumber(text);
  return number ? AsCount(*number) : std::nullopt;
}

std::optional<bool> ParseBool(absl::string_view text) {
  const std::string lower = absl::AsciiStrToLower(text);
  if (lower == "true" || lower == "yes" || lower == "on") return true;
  if (lower == "false" || lower == "no" || lower == "off") return false;
  return std::nullopt;
}

std::optional<v1::Extent> ParseExtent(absl::string_view text) {
  const auto quantity = SplitQuantity(text);
  if (!quantity || quantity->first < 0) return std::nullopt;
  const auto& [value, unit] = *quantity;
  v1::Extent extent;
  if (unit == "epoch" || unit == "epochs") {
    extent.set_epochs(value);
    return extent;
  }
  if (const auto seconds = SecondsOf(unit)) {
    extent.set_seconds(value * *seconds);
    return extent;
  }
  const auto count = AsCount(value);
  if (!count) return std::nullopt;
  if (unit == "step" || unit == "steps") {
    extent.set_steps(*count);
  } else if (unit == "example" || unit == "examples") {
    extent.set_examples(*count);
  } else {
    return std::nullopt;
  }
  return extent;
}

std::optional<absl::Duration> ParseTime(absl::string_view text) {
  const auto quantity = SplitQuantity(text);
  if (!quantity || quantity->first < 0) return std::nullopt;
  const auto seconds = SecondsOf(quantity->second);
  if (!seconds) return std::nullopt;
  return absl::Seconds(quantity->first * *seconds);
}

std::optional<uint64_t> ParseBytes(absl::string_view text) {
  if (const auto count = ParseCount(text)) return count;
  const auto quantity = SplitQuantity(text);
  if (!quantity || quantity->first < 0) return std::nullopt;
  static constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double scale = 1;
  for (const char* unit : kUnits) {
    if (quantity->second == unit) return AsCount(quantity->first * scale);
    scale *= 1024;
  }
  return std::nullopt;
}

std::string FormatNumber(double value) {
  std::array<char, 32> text;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return std::string(text.data(), end);
}

std::string FormatExtent(const v1::Extent& extent) {
  switch (extent.unit_case()) {
    case v1::Extent::kEpochs:
      return absl::StrCat(FormatNumber(extent.epochs()),
                          extent.epochs() == 1 ? " epoch" : " epochs");
    case v1::Extent::kSteps:
      return absl::StrCat(extent.steps(), extent.steps() == 1 ? " step" : " steps");
    case v1::Extent::kExamples:
      return absl::StrCat(extent.examples(), extent.examples() == 1 ? " example" : " examples");
    case v1::Extent::kSeconds:
      return FormatTime(absl::Seconds(extent.seconds()));
    case v1::Extent::UNIT_NOT_SET:
      return "";
  }
  return "";
}

std::string FormatTime(absl::Duration time) {
  const double seconds = absl::ToDoubleSeconds(time);
  if (seconds >= 60 && std::fmod(seconds, 60) == 0) {
    return absl::StrCat(FormatNumber(seconds / 60), " min");
  }
  return absl::StrCat(FormatNumber(seconds), " s");
}

std::string FormatBytes(uint64_t bytes) {
  static constexpr std::array<const char*, 4> kUnits = {"TiB", "GiB", "MiB", "KiB"};
  for (size_t i = 0; i < kUnits.size(); ++i) {
    const uint64_t scale = uint64_t{1} << (10 * (kUnits.size() - i));
    if (bytes >= scale && bytes % scale == 0) return absl::StrCat(bytes / scale, " ", kUnits[i]);
  }
  return absl::StrCat(bytes);
}

std::string Quoted(const std::string& text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

}  // namespace weir
