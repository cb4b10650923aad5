// SPDX-License-Identifier: Apache-2.0
#include "cli/past_run.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/file_system.h"
#include "common/status_macros.h"

namespace weir {

std::string ClusterFolder(const std::string& run_folder) {
  return run_folder + "/cluster";
}

absl::StatusOr<std::unique_ptr<PastRun>> PastRun::Open(const std::string& program_folder,
                                                       const std::string& run_folder,
                                                       const Clock& clock) {
  const std::string cluster = ClusterFolder(run_folder);
  if (!FileSystem::Real().Exists(cluster + "/coordinator")) {
    return absl::NotFoundError(
        absl::StrCat(run_folder, " is no folder of a run that had a cluster of its own; for a job ",
                     "on another one say --coordinator, or nothing for the local cluster"));
  }
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<LocalLock> lock, LocalLock::Take(cluster));
  std::unique_ptr<PastRun> run(new PastRun(program_folder, run_folder, clock, std::move(lock)));
  WEIR_RETURN_IF_ERROR(run->cluster_.Start());
  return run;
}

PastRun::PastRun(const std::string& program_folder, const std::string& run_folder,
                 const Clock& clock, std::unique_ptr<LocalLock> lock)
    : lock_(std::move(lock)),
      group_(
          {.log_folder = run_folder + "/logs",
           .clock = &clock,
           .on_line = [this](const auto& name, const auto& line) { cluster_.TakeLine(name, line); },
           .on_exit = [this](const auto& name,
                             const auto& state) { cluster_.TakeExit(name, state); }}),
      cluster_({.program_folder = program_folder,
                .data_folder = ClusterFolder(run_folder),
                .logs_folder = run_folder + "/logs",
                .servers = 0,
                .clock = &clock,
                .say = nullptr},
               group_) {}

PastRun::~PastRun() {
  cluster_.Stop();
}

}  // namespace weir
