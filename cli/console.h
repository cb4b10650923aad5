// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <ostream>
#include <string>

#include "common/clock.h"

namespace weir {

// What a person sees while a job runs: lines that scroll, and below them one line of progress,
// which a terminal shows in place. Elsewhere the progress is a line every `progress_interval`.
// Thread-compatible.
class Console {
 public:
  struct Options {
    bool terminal = false;
    absl::Duration progress_interval = absl::Seconds(15);
    // Of the terminal, as it is now: progress is cut to them, behind a whole field if it can be.
    std::function<size_t()> columns = [] { return size_t{79}; };
    const Clock* clock = nullptr;  // must outlive this
  };

  // `out` must outlive this.
  Console(std::ostream& out, Options options) : out_(out), options_(options) {}
  ~Console() { EndProgress(); }

  void Line(const std::string& text);
  // "[name] text".
  void Line(const std::string& name, const std::string& text);
  void Progress(const std::string& text);
  // The progress of the work so far stays as a line; what follows stands below it.
  void EndProgress();

 private:
  std::ostream& out_;
  const Options options_;
  std::string progress_;  // as it stands on the terminal
  absl::Time last_progress_ = absl::InfinitePast();
};

}  // namespace weir
