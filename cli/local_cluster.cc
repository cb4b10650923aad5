// SPDX-License-Identifier: Apache-2.0
#include "cli/local_cluster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cli/error_lines.h"
#include "common/status_macros.h"
#include "rpc/protocol.h"

namespace weir {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(60);
constexpr absl::Duration kStopTimeout = absl::Seconds(20);

}  // namespace

LocalCluster::LocalCluster(Options options, ProcessGroup& group)
    : options_(std::move(options)), group_(group) {
  const auto add = [&](const std::string& name, const std::string& program) {
    processes_.push_back({.name = name, .program = program, .address = "", .arguments = {}});
    processes_.back().arguments = {"--data-dir", absl::StrCat(options_.data_folder, "/", name),
                                   "--log-level", options_.log_level};
  };
  add("coordinator", "weir-coordinator");
  processes_.front().address = options_.coordinator;
  for (int i = 0; i < options_.servers; ++i) add(absl::StrCat("server-", i), "weir-server");
}

absl::Status LocalCluster::Start() {
  WEIR_RETURN_IF_ERROR(Launch(processes_.front()));
  WEIR_RETURN_IF_ERROR(AwaitServing(processes_.front()));
  for (size_t i = 1; i < processes_.size(); ++i) {
    Process& server = processes_[i];
    server.arguments.insert(server.arguments.end(),
                            {"--coordinator", coordinator(), "--name", server.name});
    WEIR_RETURN_IF_ERROR(Launch(server));
  }
  for (const Process& process : processes_) WEIR_RETURN_IF_ERROR(AwaitServing(process));
  return absl::OkStatus();
}

absl::Status LocalCluster::Launch(Process& process) {
  process.serves = false;
  process.due = absl::InfiniteFuture();
  std::vector<std::string> arguments = process.arguments;
  arguments.insert(arguments.end(),
                   {"--listen", process.address.empty() ? "127.0.0.1:0" : process.address});
  return group_.Start(process.name,
                      {.program = absl::StrCat(options_.program_folder, "/", process.program),
                       .arguments = arguments});
}

absl::Status LocalCluster::AwaitServing(const Process& process) {
  absl::Status tended;
  const auto ended_before_it_served = [&] {
    return process.restarts == 0 && !process.serves && !group_.Runs(process.name);
  };
  const auto settled = [&] {
    tended = Tend();
    return !tended.ok() || process.serves || ended_before_it_served();
  };
  if (!group_.PollUntil(settled, kStartTimeout)) {
    return Failed(process, "does not serve after a minute");
  }
  WEIR_RETURN_IF_ERROR(tended);
  return process.serves ? absl::OkStatus() : Failed(process, "ended before it served");
}

absl::Status LocalCluster::Failed(const Process& process, const std::string& what) const {
  return absl::UnavailableError(absl::StrCat(process.name, " ", what,
                                             "; its log: ", options_.logs_folder, "/", process.name,
                                             ".log", ErrorsOf(process.name)));
}

// With a line break before each; empty where it has told none.
std::string LocalCluster::ErrorsOf(const std::string& name) const {
  std::string text;
  for (const std::string& line : LastErrors(group_.LastLines(name))) {
    absl::StrAppend(&text, "\n  ", line);
  }
  return text;
}

void LocalCluster::TakeLine(const std::string& name, const std::string& line) {
  Process* process = Find(name);
  const size_t ready = line.find(kReadyMark);
  if (process == nullptr || ready == std::string::npos) return;
  process->address = line.substr(ready + sizeof kReadyMark - 1);
  process->serves = true;
}

void LocalCluster::TakeExit(const std::string& name, const ExitState& state) {
  Process* process = Find(name);
  if (process == nullptr || stopping_) return;
  const bool served = process->serves;
  process->serves = false;
  if (!served && process->restarts == 0) return;  // Start reports it
  // At once after a crash; slower where it does not come up.
  process->due = options_.clock->Now() + (served ? absl::ZeroDuration() : absl::Seconds(1));
  ++process->restarts;
  if (options_.say) {
    options_.say(absl::StrCat(name, " ended with ", state.ToString(), "; it is started again.",
                              ErrorsOf(name)));
  }
}

absl::Status LocalCluster::Tend() {
  for (Process& process : processes_) {
    if (process.due > options_.clock->Now()) continue;
    if (process.restarts > options_.max_restarts) return Failed(process, "ends again and again");
    WEIR_RETURN_IF_ERROR(Launch(process));
  }
  return absl::OkStatus();
}

LocalState LocalCluster::State() const {
  LocalState state{.coordinator = coordinator(), .processes = {}};
  for (const Process& process : processes_) {
    state.processes.push_back({.name = process.name,
                               .address = process.address,
                               .pid = group_.Pid(process.name),
                               .restarts = process.restarts});
  }
  return state;
}

std::vector<std::string> LocalCluster::Stop() {
  stopping_ = true;
  std::vector<std::string> servers;
  for (size_t i = 1; i < processes_.size(); ++i) servers.push_back(processes_[i].name);
  std::vector<std::string> killed = group_.Stop(servers, kStopTimeout);
  const std::vector<std::string> last = group_.Stop({processes_.front().name}, kStopTimeout);
  killed.insert(killed.end(), last.begin(), last.end());
  return killed;
}

LocalCluster::Process* LocalCluster::Find(const std::string& name) {
  const auto found = std::find_if(processes_.begin(), processes_.end(),
                                  [&](const Process& process) { return process.name == name; });
  return found == processes_.end() ? nullptr : &*found;
}

}  // namespace weir
