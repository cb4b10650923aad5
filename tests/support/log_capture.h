// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace weir {

// What is logged while this lives, in place of where it would have gone. Used from one thread.
class LogCapture {
 public:
  LogCapture()
      : before_(spdlog::default_logger()),
        logger_(std::make_shared<spdlog::logger>(
            "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_))) {
    logger_->set_pattern("%v");
    spdlog::set_default_logger(logger_);
  }
  ~LogCapture() { spdlog::set_default_logger(before_); }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  std::vector<std::string> LinesWith(const std::string& part) const {
    std::vector<std::string> lines;
    for (const auto line : absl::StrSplit(text_.str(), '\n')) {
      if (absl::StrContains(line, part)) lines.emplace_back(line);
    }
    return lines;
  }

 private:
  std::ostringstream text_;
  const std::shared_ptr<spdlog::logger> before_;
  const std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace weir
