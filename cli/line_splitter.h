// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace weir {

// Cuts a stream of bytes into lines. A line longer than kMaxLine is cut, so that a program that
// never ends its line costs no more memory than that. Thread-compatible.
class LineSplitter {
 public:
  static constexpr size_t kMaxLine = 64 << 10;

  // The lines that these bytes complete, without their ends ("\n" or "\r\n").
  std::vector<std::string> Feed(absl::string_view bytes);
  // What stands after the last line's end, if anything.
  std::vector<std::string> Flush();

 private:
  std::string rest_;
};

}  // namespace weir
