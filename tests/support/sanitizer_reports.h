// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace weir {

// Whether a sanitizer's report begins with this line of a program's output. A child process that a
// test kills, or that somebody starts anew, is found out by nothing else.
bool IsSanitizerReport(absl::string_view line);

// All such lines, "FILE: LINE", of the files *.log in a folder and its subfolders.
std::vector<std::string> SanitizerReports(const std::string& folder);

}  // namespace weir
