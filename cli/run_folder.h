// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace weir {

// The folder of a job's runs, in which an earlier run may have left its result. Thread-compatible.
class RunFolder {
 public:
  RunFolder() = default;
  // Notes what is there now: what differs later is of this run.
  explicit RunFolder(std::string path);

  const std::string& path() const { return path_; }
  std::string SummaryPath() const { return path_ + "/summary.json"; }
  // Whether a worker has trained since: it has written metrics or its summary.
  bool Trained() const;
  // The summary that a worker has written since; empty where none has.
  std::string NewSummary() const;

 private:
  struct Mark {
    std::filesystem::file_time_type time = {};
    uintmax_t bytes = 0;

    bool operator==(const Mark&) const = default;
  };
  Mark MetricsMark() const;
  std::string Summary() const;

  std::string path_;
  Mark metrics_;
  std::string summary_;
};

}  // namespace weir
