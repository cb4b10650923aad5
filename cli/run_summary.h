// SPDX-License-Identifier: Apache-2.0
// What a run has come to, as JSON for programs and as text for people.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace weir {

// What the run itself knows, beside what its workers have written.
struct RunFacts {
  std::string job = {};
  std::string regime = {};
  int servers = 0;
  int workers = 0;
  uint64_t steps = 0;     // of all workers; 0: what the worker has written holds
  uint64_t examples = 0;  // the same
  int restarted_daemons = 0;
  int replaced_workers = 0;
  std::string checkpoint = {};        // newest committed; empty: none
  std::string list_checkpoints = {};  // the command that lists them
  std::string manifest = {};          // path of its manifest, where that is on this machine
  absl::Duration wall = {};
  std::string folder = {};      // of the run
  std::string loss_curve = {};  // path of the picture; empty: none
  std::string failure = {};     // why the run has failed; empty: it has not
};

// The worker's summary.json (an object, or empty where it wrote none), with the facts added to it.
// Keys of the facts win. Errors: InvalidArgument - the worker's is no JSON object.
absl::StatusOr<std::string> SummaryJson(const std::string& worker_summary, const RunFacts& facts);

// A few lines out of what SummaryJson returned. A value that is not there is left out.
// Errors: InvalidArgument - no JSON object.
absl::StatusOr<std::string> SummaryText(const std::string& summary);

}  // namespace weir
