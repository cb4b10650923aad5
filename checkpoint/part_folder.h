// SPDX-License-Identifier: Apache-2.0
// Where the parts of one server lie: docs/checkpoints.md.
//
//   <root>/<job>/<id>       a part          <root>/<job>/<id>.tmp   unfinished
//   <root>/<job>/live       the RocksDB that parts are linked from
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/file_system.h"

namespace weir {

// Of one part. `root` is the server's checkpoint folder.
struct PartFolder {
  std::string job_folder;
  std::string id;
  std::string path;        // of the finished part
  std::string unfinished;  // of the part while it is written

  std::string live() const { return job_folder + "/live"; }

  // `directory` is "<job>/<id>".
  // Errors: InvalidArgument - it is not; says whether job, id or slash is wrong.
  static absl::StatusOr<PartFolder> Parse(absl::string_view root, absl::string_view directory);
};

// Whether `path`, absolute, lies below one of `roots` without leaving it by "..".
bool IsBelow(absl::string_view path, absl::Span<const std::string> roots);

// Removes what a crash left half written; fine where there is no `root`. Once, before parts are
// written below it. Errors: those of FileSystem.
absl::Status SweepParts(FileSystem& files, const std::string& root);

// Removes a part; fine where there is none. After an error it may be called again.
// Errors: InvalidArgument - `directory` is not "<job>/<id>"; and those of FileSystem.
absl::Status DropPart(FileSystem& files, absl::string_view root, absl::string_view directory);

}  // namespace weir
