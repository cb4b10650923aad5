// SPDX-License-Identifier: Apache-2.0
#include "tests/support/sanitizer_reports.h"

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace weir {

bool IsSanitizerReport(absl::string_view line) {
  return absl::StrContains(line, "ERROR: AddressSanitizer") ||
         absl::StrContains(line, "ERROR: LeakSanitizer") ||
         absl::StrContains(line, "WARNING: ThreadSanitizer") ||
         absl::StrContains(line, ": runtime error: ");
}

std::vector<std::string> SanitizerReports(const std::string& folder) {
  std::vector<std::string> reports;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, error)) {
    if (entry.path().extension() != ".log") continue;
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      if (IsSanitizerReport(line)) {
        reports.push_back(absl::StrCat(entry.path().string(), ": ", line));
      }
    }
  }
  return reports;
}

}  // namespace weir
