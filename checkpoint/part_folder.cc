// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/part_folder.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "checkpoint/manifest.h"
#include "common/status_macros.h"

namespace weir {
absl::StatusOr<PartFolder> PartFolder::Parse(absl::string_view root, absl::string_view directory) {
  const size_t slash = directory.find('/');
  if (slash == absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", directory, "' is not a part's folder: expected JOB/ID"));
  }
  const absl::string_view job = directory.substr(0, slash);
  const absl::string_view id = directory.substr(slash + 1);
  WEIR_RETURN_IF_ERROR(CheckFolderName("job", job));
  WEIR_RETURN_IF_ERROR(CheckpointNumber(id).status());
  PartFolder folder;
  folder.job_folder = absl::StrCat(root, "/", job);
  folder.id = std::string(id);
  folder.path = absl::StrCat(folder.job_folder, "/", id);
  folder.unfinished = absl::StrCat(folder.path, kUnfinishedSuffix);
  return folder;
}

bool IsBelow(absl::string_view path, absl::Span<const std::string> roots) {
  for (const absl::string_view step : absl::StrSplit(path, '/')) {
    if (step == "..") return false;
  }
  return std::any_of(roots.begin(), roots.end(), [&](const std::string& root) {
    return absl::StartsWith(path, root) && path.size() > root.size() && path[root.size()] == '/';
  });
}

absl::Status SweepParts(FileSystem& files, const std::string& root) {
  if (!files.Exists(root)) return absl::OkStatus();
  WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> jobs, files.List(root));
  for (const std::string& job : jobs) {
    const std::string folder = absl::StrCat(root, "/", job);
    const absl::StatusOr<std::vector<std::string>> names = files.List(folder);
    if (!names.ok()) continue;  // a file of somebody else's
    for (const std::string& name : *names) {
      if (!absl::EndsWith(name, kUnfinishedSuffix)) continue;
      WEIR_RETURN_IF_ERROR(files.RemoveTree(absl::StrCat(folder, "/", name)));
    }
    WEIR_RETURN_IF_ERROR(files.SyncFolder(folder));
  }
  return absl::OkStatus();
}

absl::Status DropPart(FileSystem& files, absl::string_view root, absl::string_view directory) {
  WEIR_ASSIGN_OR_RETURN(const PartFolder folder, PartFolder::Parse(root, directory));
  if (files.Exists(folder.path)) {
    // The rename first: a crash may leave half a part, but not under a good name.
    WEIR_RETURN_IF_ERROR(files.RemoveTree(folder.unfinished));
    WEIR_RETURN_IF_ERROR(files.Rename(folder.path, folder.unfinished));
    WEIR_RETURN_IF_ERROR(files.SyncFolder(folder.job_folder));
  }
  return files.RemoveTree(folder.unfinished);
}

}  // namespace weir
