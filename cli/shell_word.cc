// SPDX-License-Identifier: Apache-2.0
#include "cli/shell_word.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

namespace weir {

std::string ShellWord(const std::string& word) {
  constexpr absl::string_view kPlain = "_-./:@%+,";
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [&](char c) {
    return absl::ascii_isalnum(c) || kPlain.find(c) != absl::string_view::npos;
  });
  return plain ? word : absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

}  // namespace weir
