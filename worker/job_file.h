// SPDX-License-Identifier: Apache-2.0
// Job files: docs/job-file.md is the reference of the YAML.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "weir/v1/job_spec.pb.h"

namespace weir {

// Lengths in a schedule as they are written; the size of the training set turns them into examples.
struct ScheduleExtents {
  v1::Extent warm_up;  // unset: none
  v1::Extent total;    // of cosine and linear; unset: the job's length
  std::vector<v1::Extent> boundaries;
};

struct JobFile {
  v1::JobSpec spec;  // every default filled in; schedules without their lengths
  std::map<std::string, ScheduleExtents> schedules;  // by optimizer
};

struct JobFileSource {
  std::string file;  // for messages
  std::string text;
  std::string folder;  // paths in the job are relative to it; empty: kept as they are
  std::vector<std::string> overrides;  // "data.batch.global=64": replace or add one value
};

// Errors: InvalidArgument - not YAML, an unknown key, a wrong type, values that contradict each
// other: one line each, with file, line, key, and what was expected.
absl::StatusOr<JobFile> ParseJobFile(const JobFileSource& source);

// Reads the file; relative paths in it start at its own folder.
// Errors: NotFound - no such file; InvalidArgument - as ParseJobFile.
absl::StatusOr<JobFile> ReadJobFile(const std::string& path,
                                    const std::vector<std::string>& overrides);

// Fills in train_examples and the lengths of the schedules: the job as everybody sees it.
// Errors: InvalidArgument - a schedule that ends before its warm-up does, boundaries that do not
// rise.
absl::StatusOr<v1::JobSpec> ResolveJob(const JobFile& job, uint64_t train_examples);

// The resolved job in the language of job files: ParseJobFile reads the same job back.
std::string PrintJob(const v1::JobSpec& spec);

}  // namespace weir
