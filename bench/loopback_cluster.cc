// SPDX-License-Identifier: Apache-2.0
#include "bench/loopback_cluster.h"

#include <stdlib.h>
#include <time.h>

#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "bench/child_run.h"
#include "common/clock.h"
#include "common/status_macros.h"

namespace weir::bench {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(30);

// The value of "key=value" in a line of words.
std::string ValueOf(const std::string& key, const std::string& line) {
  for (const absl::string_view word : absl::StrSplit(line, ' ')) {
    if (absl::StartsWith(word, key + "=")) return std::string(word.substr(key.size() + 1));
  }
  return "";
}

}  // namespace

LoopbackCluster::LoopbackCluster(std::string folder)
    : folder_(std::move(folder)),
      processes_({.log_folder = folder_ + "/logs",
                  .clock = &Clock::Real(),
                  .on_line =
                      [this](const std::string& name, const std::string& line) {
                        if (absl::StrContains(line, " ready ")) ready_lines_[name] = line;
                      },
                  .on_exit = {}}) {}

LoopbackCluster::~LoopbackCluster() {
  processes_.Stop({"peer"}, absl::Seconds(1));
  processes_.Stop(servers_, absl::Seconds(5));
  processes_.Stop({"coordinator"}, absl::Seconds(5));
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

absl::StatusOr<std::unique_ptr<LoopbackCluster>> LoopbackCluster::Start(int servers) {
  std::string folder = std::filesystem::temp_directory_path() / "weir-bench-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot make a temporary folder ", folder));
  }
  std::unique_ptr<LoopbackCluster> cluster(new LoopbackCluster(folder));
  WEIR_RETURN_IF_ERROR(cluster->StartAll(servers));
  return cluster;
}

absl::Status LoopbackCluster::StartAll(int servers) {
  WEIR_ASSIGN_OR_RETURN(const std::string peer, StartProgram("peer", "bench_peer", {}));
  peer_tcp_ = ValueOf("tcp", peer);
  peer_grpc_ = ValueOf("grpc", peer);
  WEIR_ASSIGN_OR_RETURN(
      const std::string coordinator,
      StartProgram("coordinator", "weir-coordinator",
                   {"--listen", "127.0.0.1:0", "--data-dir", folder_ + "/coordinator"}));
  coordinator_ = ValueOf("address", coordinator);
  for (int i = 0; i < servers; ++i) {
    const std::string name = absl::StrCat("server-", i);
    WEIR_RETURN_IF_ERROR(
        StartProgram(name, "weir-server",
                     {"--coordinator", coordinator_, "--name", name, "--listen", "127.0.0.1:0",
                      "--data-dir", absl::StrCat(folder_, "/", name)})
            .status());
    servers_.push_back(name);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> LoopbackCluster::StartProgram(const std::string& name,
                                                          const std::string& program,
                                                          std::vector<std::string> arguments) {
  WEIR_RETURN_IF_ERROR(processes_.Start(
      name, {.program = ProgramFolder() + "/" + program, .arguments = std::move(arguments)}));
  const auto settled = [&] { return ready_lines_.count(name) != 0 || !processes_.Runs(name); };
  processes_.PollUntil(settled, kStartTimeout);
  if (ready_lines_.count(name) != 0) return ready_lines_[name];
  return absl::UnavailableError(
      absl::StrCat(name, " does not come up: ", absl::StrJoin(processes_.LastLines(name), " | ")));
}

std::vector<pid_t> LoopbackCluster::server_pids() const {
  std::vector<pid_t> pids;
  for (const std::string& name : servers_) pids.push_back(processes_.Pid(name));
  return pids;
}

double CpuSeconds(const std::vector<pid_t>& processes) {
  double seconds = 0;
  for (const pid_t process : processes) {
    clockid_t clock = CLOCK_PROCESS_CPUTIME_ID;
    timespec used = {};
    if (process != 0 && clock_getcpuclockid(process, &clock) != 0) continue;
    if (clock_gettime(clock, &used) != 0) continue;
    seconds += static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
  }
  return seconds;
}

}  // namespace weir::bench
