// SPDX-License-Identifier: Apache-2.0
#include "cli/job_stop.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/human.h"
#include "cli/shell_word.h"

namespace weir {

bool IsOursToStop(const v1::JobStatus& job, const std::vector<pid_t>& workers) {
  if (job.view().state() != v1::JOB_STATE_RUNNING || job.view().stop()) return false;
  const auto is_ours = [&](const v1::WorkerStatus& worker) {
    return std::any_of(workers.begin(), workers.end(), [&](pid_t pid) {
      return absl::EndsWith(worker.host(), absl::StrCat(":", pid));
    });
  };
  return std::any_of(job.workers().begin(), job.workers().end(), is_ours);
}

std::string GoOnCommand(const JobRun::Options& options, bool own_cluster) {
  std::string command =
      absl::StrCat(ShellWord(options.command), " run ", ShellWord(options.job_file));
  if (!options.program.empty()) {
    absl::StrAppend(&command, " --program ", ShellWord(options.program));
  }
  if (own_cluster) {
    absl::StrAppend(&command, " --own-cluster");
    if (options.servers > 1) absl::StrAppend(&command, " --servers ", options.servers);
  } else if (!options.coordinator_is_local) {
    absl::StrAppend(&command, " --coordinator ", ShellWord(options.coordinator));
  }
  if (options.workers > 0) absl::StrAppend(&command, " --workers ", options.workers);
  if (options.runs_folder != JobRun::Options().runs_folder) {
    absl::StrAppend(&command, " --runs ", ShellWord(options.runs_folder));
  }
  for (const std::string& override : options.overrides) {
    if (absl::StartsWith(override, "resume=") || absl::StartsWith(override, "replace=")) continue;
    absl::StrAppend(&command, " --set ", ShellWord(override));
  }
  return command + " --resume auto";
}

std::string StoppedText(const v1::Manifest& newest, const std::string& command) {
  constexpr char kStopped[] = "The job was stopped before its end";
  if (newest.id().empty()) {
    return absl::StrCat(kStopped, ", and has no checkpoint. Begin anew with --replace.");
  }
  return absl::StrCat(kStopped, ". Its newest checkpoint is ", newest.id(), ", step ",
                      HumanCount(newest.step()), "; go on from it with:\n  ", command);
}

}  // namespace weir
