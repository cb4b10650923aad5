// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace weir {

// The known word nearest to `word` by edits (a swap of neighbours counts one), or "" where none is
// near enough to be a slip.
std::string NearestWord(absl::string_view word, const std::vector<std::string>& known);

}  // namespace weir
