// SPDX-License-Identifier: Apache-2.0
#include "cli/run_folder.h"

#include <system_error>
#include <utility>

#include "cli/text_file.h"

namespace weir {

RunFolder::RunFolder(std::string path)
    : path_(std::move(path)), metrics_(MetricsMark()), summary_(Summary()) {}

bool RunFolder::Trained() const {
  return MetricsMark() != metrics_ || !NewSummary().empty();
}

std::string RunFolder::NewSummary() const {
  // A worker never writes what the run makes of its summary, so equal means untouched.
  std::string now = Summary();
  return now == summary_ ? "" : now;
}

RunFolder::Mark RunFolder::MetricsMark() const {
  const std::string path = path_ + "/metrics.jsonl";
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error) return {};
  const auto time = std::filesystem::last_write_time(path, error);
  return error ? Mark() : Mark{.time = time, .bytes = bytes};
}

std::string RunFolder::Summary() const {
  const auto text = ReadTextFile(SummaryPath());
  return text.ok() ? *text : "";
}

}  // namespace weir
