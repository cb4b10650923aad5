// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace weir {

// Gathers what is wrong with a YAML document, each with file, line and key. Thread-compatible.
class YamlDiagnostics {
 public:
  explicit YamlDiagnostics(std::string file) : file_(std::move(file)) {}

  // Values at `path` and below came from `--set text`: errors there name it in place of a line.
  void AddOverride(const std::string& path, const std::string& text) { overrides_[path] = text; }

  // `line` from 1; 0: unknown. `path`: "optimizers.sgd.momentum"; empty: the document.
  void Report(absl::string_view path, int line, absl::string_view message);

  bool ok() const { return errors_.empty(); }
  // OK, or InvalidArgument with one line an error: "job.yaml:3: modle: unknown key; did you mean
  // ...".
  absl::Status status() const;

 private:
  std::string file_;
  std::map<std::string, std::string> overrides_;
  std::vector<std::string> errors_;
};

}  // namespace weir
