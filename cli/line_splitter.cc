// SPDX-License-Identifier: Apache-2.0
#include "cli/line_splitter.h"

#include <utility>

namespace weir {

std::vector<std::string> LineSplitter::Feed(absl::string_view bytes) {
  std::vector<std::string> lines;
  for (const char byte : bytes) {
    if (byte != '\n') rest_.push_back(byte);
    if (byte != '\n' && rest_.size() < kMaxLine) continue;
    if (!rest_.empty() && rest_.back() == '\r') rest_.pop_back();
    lines.push_back(std::exchange(rest_, {}));
  }
  return lines;
}

std::vector<std::string> LineSplitter::Flush() {
  if (rest_.empty()) return {};
  return {std::exchange(rest_, {})};
}

}  // namespace weir
