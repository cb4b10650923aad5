// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/clock.h"

namespace weir {

// What a run needs to know of its job. The rest is the workers' business.
struct ResolvedJob {
  std::string name;
  std::string regime;
  std::string
      replica;  // the class that a program of the user's own trains; empty: a built-in model
  int workers = 1;
  bool replace = false;
  std::string text;  // the job file with every default, as weir-worker prints it
};

// Reads what `weir-worker --print-job` prints.
// Errors: InvalidArgument - not a resolved job.
absl::StatusOr<ResolvedJob> ParseResolvedJob(const std::string& text);

struct ResolveOptions {
  std::string worker_program;  // the path of weir-worker, or of one with its flags
  std::string job_file;
  std::vector<std::string> overrides;  // "key=value"
  const Clock* clock = nullptr;        // must outlive the call
};

// Asks weir-worker, which alone knows how to read a job file.
// Errors: InvalidArgument - it refuses the job, in its own words; DataLoss - the job's data is
// missing or wrong; NotFound - no weir-worker there; DeadlineExceeded - it does not answer within a
// minute; Internal - it was killed.
absl::StatusOr<ResolvedJob> ResolveJobFile(const ResolveOptions& options);

}  // namespace weir
