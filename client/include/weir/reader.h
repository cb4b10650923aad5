// SPDX-License-Identifier: Apache-2.0
// Reading a job's variables without being one of its workers: for actors, evaluators, dashboards.
// C++17; no LibTorch, no protobuf, no gRPC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "weir/variable.h"

namespace weir {

struct ReaderOptions {
  std::string coordinator;                    // host:port
  std::string job;                            // by name; its newest run
  absl::Duration timeout = absl::Minutes(1);  // until the job has variables
};

// A whole variable's elements, contiguous, in its dtype.
struct NamedBuffer {
  std::string variable;
  void* data = nullptr;
  size_t bytes = 0;
};

struct ReadOptions {
  // Only what is younger counts: where the buffers' last read of all these variables is no older,
  // nothing is pulled. Zero: always pull.
  absl::Duration max_age = absl::ZeroDuration();
  // Waits until so many examples are applied to what is read.
  uint64_t min_examples = 0;
  absl::Duration timeout = absl::Minutes(1);
};

struct ReadStats {
  uint64_t examples = 0;  // applied to the weights that came
  uint64_t bytes = 0;     // that came; 0: they were young enough
};

// Follows the job through rollbacks. Never counts in a barrier, nor in a step. Thread-safe.
class Reader {
 public:
  // Errors: Unavailable - no coordinator answers at the address; NotFound - no such job;
  // FailedPrecondition - it has ended; DeadlineExceeded - it has no variables yet.
  static absl::StatusOr<std::unique_ptr<Reader>> Open(const ReaderOptions& options);
  virtual ~Reader() = default;

  // What the job has declared.
  virtual std::vector<VariableSpec> Variables() const = 0;

  // Errors: NotFound - no such variable; InvalidArgument - a size; FailedPrecondition - the job has
  // ended; DeadlineExceeded - who is missing, or how few examples are applied.
  virtual absl::StatusOr<ReadStats> Pull(absl::Span<const NamedBuffer> into,
                                         const ReadOptions& options) = 0;
};

}  // namespace weir
