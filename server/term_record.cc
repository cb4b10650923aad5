// SPDX-License-Identifier: Apache-2.0
#include "server/term_record.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"

namespace weir {
namespace {

std::string PathIn(const std::string& folder) {
  return folder + "/TERM";
}

}  // namespace

absl::StatusOr<std::unique_ptr<TermRecord>> TermRecord::Open(FileSystem& files,
                                                             std::string folder) {
  WEIR_RETURN_IF_ERROR(files.CreateFolder(folder));
  uint64_t highest = 0;
  if (files.Exists(PathIn(folder))) {
    WEIR_ASSIGN_OR_RETURN(const std::string text, files.ReadFile(PathIn(folder), 64));
    if (!absl::SimpleAtoi(absl::StripSuffix(text, "\n"), &highest)) {
      return absl::DataLossError(absl::StrCat(PathIn(folder), " holds no coordinator term"));
    }
  }
  return std::unique_ptr<TermRecord>(new TermRecord(files, std::move(folder), highest));
}

absl::Status TermRecord::Admit(uint64_t term) {
  {
    MutexLock lock(mutex_);
    if (term == highest_) return absl::OkStatus();
  }
  MutexLock writing(writing_);
  {
    MutexLock lock(mutex_);
    if (term < highest_) {
      return absl::AbortedError(
          absl::StrCat("a coordinator of term ", highest_, " has taken over; yours is ", term));
    }
    if (term == highest_) return absl::OkStatus();
  }
  WEIR_RETURN_IF_ERROR(Write(term));
  MutexLock lock(mutex_);
  highest_ = term;
  return absl::OkStatus();
}

absl::Status TermRecord::Write(uint64_t term) {
  const std::string aside = PathIn(folder_) + ".new";
  WEIR_RETURN_IF_ERROR(files_.WriteFile(aside, absl::StrCat(term, "\n")));
  WEIR_RETURN_IF_ERROR(files_.SyncFile(aside));
  WEIR_RETURN_IF_ERROR(files_.Rename(aside, PathIn(folder_)));
  return files_.SyncFolder(folder_);
}

}  // namespace weir
