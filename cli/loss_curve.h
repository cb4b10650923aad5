// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/clock.h"

namespace weir {

// The points of a run's metrics.jsonl (one JSON object a line) for gnuplot, in the order of epochs:
// lines "epoch loss accuracy", each the mean of as many points as there are workers, and, two empty
// lines below them, lines "epoch test_accuracy"; "nan" for a number that is not there. Lines that
// are no such object, like a last one cut short, are passed over.
std::string CurvePoints(const std::string& metrics_jsonl);

struct CurveOptions {
  std::string title;
  std::string search_path;       // where gnuplot is looked for: folders with colons between them
  const Clock* clock = nullptr;  // must outlive the call
};

// Draws <folder>/metrics.jsonl as <folder>/loss.png with gnuplot and returns the picture's path.
// Errors: NotFound - no metrics, or no gnuplot; Internal - gnuplot failed, with its words, or took
// more than a minute by the clock.
absl::StatusOr<std::string> DrawLossCurve(const std::string& folder, const CurveOptions& options);

}  // namespace weir
