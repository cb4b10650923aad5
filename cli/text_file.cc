// SPDX-License-Identifier: Apache-2.0
#include "cli/text_file.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "common/file_system.h"
#include "common/status_macros.h"

namespace weir {
namespace {
constexpr uint64_t kMaxBytes = uint64_t{1} << 30;
}  // namespace

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  return FileSystem::Real().ReadFile(path, kMaxBytes);
}

absl::Status WriteTextFile(const std::string& path, const std::string& text) {
  FileSystem& files = FileSystem::Real();
  const std::string aside = absl::StrCat(path, ".", getpid());
  WEIR_RETURN_IF_ERROR(files.CreateFolder(FolderOf(path)));
  WEIR_RETURN_IF_ERROR(files.WriteFile(aside, text));
  return files.Rename(aside, path);
}

}  // namespace weir
