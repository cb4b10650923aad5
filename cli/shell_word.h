// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace weir {

// `word` such that a shell reads it back as one word: as it is, or in single quotes.
std::string ShellWord(const std::string& word);

}  // namespace weir
