// SPDX-License-Identifier: Apache-2.0
#include "cli/error_lines.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace weir {
namespace {

constexpr size_t kMostLines = 3;
// "2026-12-01T00:05:49.123 E weir-server TEXT"
constexpr size_t kLevelAt = 24;
constexpr char kReady[] = " ready address=";

// 0: the line is none of the log.
char LevelOf(const std::string& line) {
  const bool logged = line.size() > kLevelAt + 1 && absl::ascii_isdigit(line[0]) &&
                      line[4] == '-' && line[10] == 'T' && line[kLevelAt - 1] == ' ' &&
                      line[kLevelAt + 1] == ' ';
  return logged ? line[kLevelAt] : '\0';
}

bool IsErrorLevel(char level) {
  return level == 'E' || level == 'C';
}

}  // namespace

std::string ErrorOf(const std::string& line, const std::string& program) {
  const std::string last_words = program + ": ";
  if (absl::StartsWith(line, last_words)) return line.substr(last_words.size());
  if (!IsErrorLevel(LevelOf(line))) return "";
  const size_t program_end = line.find(' ', kLevelAt + 2);
  return program_end == std::string::npos ? "" : line.substr(program_end + 1);
}

std::vector<std::string> LastErrors(const std::vector<std::string>& output) {
  std::vector<std::string> errors;
  for (const std::string& line : output) {
    const char level = LevelOf(line);
    const bool tells = level == 0 ? !absl::StrContains(line, kReady) : IsErrorLevel(level);
    if (tells && !absl::StripAsciiWhitespace(line).empty()) errors.push_back(line);
  }
  if (errors.size() > kMostLines) errors.erase(errors.begin(), errors.end() - kMostLines);
  return errors;
}

}  // namespace weir
