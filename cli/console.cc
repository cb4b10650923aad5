// SPDX-License-Identifier: Apache-2.0
#include "cli/console.h"

namespace weir {
namespace {
constexpr char kClearLine[] = "\r\033[K";
constexpr char kBetweenFields[] = "  ";

std::string CutTo(size_t columns, const std::string& text) {
  if (text.size() <= columns) return text;
  const size_t field = text.rfind(kBetweenFields, columns);
  return text.substr(0, field == std::string::npos || field == 0 ? columns : field);
}

}  // namespace

void Console::Line(const std::string& text) {
  if (!progress_.empty()) out_ << kClearLine;
  out_ << text << "\n" << progress_ << std::flush;
}

void Console::Line(const std::string& name, const std::string& text) {
  Line("[" + name + "] " + text);
}

void Console::Progress(const std::string& text) {
  if (options_.terminal) {
    progress_ = CutTo(options_.columns(), text);
    out_ << kClearLine << progress_ << std::flush;
    return;
  }
  const absl::Time now = options_.clock->Now();
  if (now - last_progress_ < options_.progress_interval) return;
  last_progress_ = now;
  out_ << text << "\n" << std::flush;
}

void Console::EndProgress() {
  if (!progress_.empty()) out_ << "\n" << std::flush;
  progress_.clear();
}

}  // namespace weir
