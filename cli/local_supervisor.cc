// SPDX-License-Identifier: Apache-2.0
#include "cli/local_supervisor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/human.h"
#include "cli/local_cluster.h"
#include "cli/process_group.h"
#include "cli/queries.h"
#include "cli/text_file.h"
#include "common/file_system.h"
#include "common/status_macros.h"

namespace weir {
namespace {

constexpr absl::Duration kUpTimeout = absl::Seconds(90);
constexpr absl::Duration kLockTimeout = absl::Seconds(5);
constexpr absl::Duration kDownTimeout = absl::Seconds(60);
constexpr absl::Duration kLook = absl::Milliseconds(20);

// Where the coordinator has served last, for the next one.
std::string AddressPath(const std::string& folder) {
  return folder + "/coordinator.address";
}
std::string WordsPath(const std::string& folder) {
  return folder + "/supervisor.log";
}

// Rewrites cluster.json where it would change.
absl::Status WriteState(const std::string& folder, const std::string& json, std::string& last) {
  if (json == last) return absl::OkStatus();
  last = json;
  return WriteTextFile(LocalStatePath(folder), json);
}

// A session leader of its own, child of nobody: it outlives this process and its terminal. Runs
// between fork and exec, so with calls only that are safe there.
[[noreturn]] void BecomeSupervisor(const char* program, char* const* argv, const char* words) {
  setsid();
  if (fork() != 0) _exit(0);
  const int input = open("/dev/null", O_RDONLY);
  const int output = open(words, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (input < 0 || output < 0 || dup2(input, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0) {
    _exit(127);
  }
  execv(program, argv);
  _exit(127);
}

absl::Status StartSupervisor(const LocalOptions& options) {
  const std::string program = options.program_folder + "/weir";
  const std::string words = WordsPath(options.state_folder);
  std::vector<std::string> arguments = {program,
                                        "local",
                                        "supervise",
                                        "--state",
                                        options.state_folder,
                                        "--servers",
                                        absl::StrCat(options.servers),
                                        "--log-level",
                                        options.log_level};
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) return absl::InternalError("cannot fork");
  if (child == 0) BecomeSupervisor(program.c_str(), argv.data(), words.c_str());
  waitpid(child, nullptr, 0);
  return absl::OkStatus();
}

// `address` where it is one of this machine that can be listened on now; else empty.
std::string FreeAddress(const std::string& address) {
  const std::vector<std::string> parts = absl::StrSplit(address, ':');
  int port = 0;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[1], &port)) return "";
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<uint16_t>(port));
  if (inet_pton(AF_INET, parts[0].c_str(), &at.sin_addr) != 1) return "";
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  // Connections of the last one may linger; whoever listens is still in the way.
  const int on = 1;
  setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool bound = bind(file, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
  close(file);
  return bound ? address : "";
}

absl::Status CheckServers(const LocalOptions& options, const LocalState& state) {
  const auto servers = static_cast<int>(state.processes.size()) - 1;  // without the coordinator
  if (!options.servers_wanted || servers == options.servers) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the local cluster runs already, with ", HumanCount(servers, "server"), ", not ",
                   options.servers, "; `weir local down` ends it, then it can come up so"));
}

// Whose workers would wait for a cluster that is gone.
absl::Status CheckNoJobRuns(const LocalOptions& options) {
  const absl::StatusOr<LocalState> state = ReadLocalState(options.state_folder);
  if (!state.ok()) return absl::OkStatus();
  const auto jobs = JobsWithWorkers({.coordinator = state->coordinator,
                                     .state_folder = options.state_folder,
                                     .clock = options.clock});
  // A cluster that does not answer must be possible to end.
  if (!jobs.ok() || jobs->empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the local cluster is at work on ", absl::StrJoin(*jobs, ", "),
      "; `weir stop JOB` ends a job, `weir local down --force` takes the cluster from them all"));
}

std::string Moved(const std::string& last, const std::string& now) {
  if (last == now) return "";
  return absl::StrCat("Something else listens at ", last, ", where the coordinator was; it is at ",
                      now, " now, and workers that wait for it there do not find it.");
}

absl::Status DidNotComeUp(const std::string& folder) {
  const absl::StatusOr<std::string> words = ReadTextFile(WordsPath(folder));
  return absl::UnavailableError(
      absl::StrCat("the local cluster does not come up; its supervisor's words (",
                   WordsPath(folder), "):\n", words.ok() ? *words : ""));
}

}  // namespace

absl::Status SuperviseLocalCluster(const LocalOptions& options,
                                   const std::function<int()>& stop_requests) {
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<LocalLock> lock,
                        LocalLock::Take(options.state_folder));
  LocalCluster* reported = nullptr;
  ProcessGroup group(
      {.log_folder = options.state_folder + "/logs",
       .clock = options.clock,
       .on_line = [&](const auto& name, const auto& line) { reported->TakeLine(name, line); },
       .on_exit = [&](const auto& name, const auto& state) { reported->TakeExit(name, state); }});
  const absl::StatusOr<std::string> last_address = ReadTextFile(AddressPath(options.state_folder));
  LocalCluster cluster({.program_folder = options.program_folder,
                        .data_folder = options.state_folder + "/data",
                        .logs_folder = options.state_folder + "/logs",
                        .coordinator = last_address.ok() ? FreeAddress(*last_address) : "",
                        .servers = options.servers,
                        .log_level = options.log_level,
                        .clock = options.clock,
                        .say = [](const std::string& text) { std::cout << text << std::endl; }},
                       group);
  reported = &cluster;
  WEIR_RETURN_IF_ERROR(cluster.Start());
  // Workers that still look for the cluster then find the next one.
  WEIR_RETURN_IF_ERROR(WriteTextFile(AddressPath(options.state_folder), cluster.coordinator()));
  std::string written;
  absl::Status status;
  while (status.ok() && stop_requests() == 0) {
    status = WriteState(options.state_folder, LocalStateToJson(cluster.State()), written);
    if (!status.ok()) break;
    group.Poll(absl::Milliseconds(200));
    status = cluster.Tend();
  }
  cluster.Stop();
  const absl::Status removed = FileSystem::Real().RemoveFile(LocalStatePath(options.state_folder));
  return status.ok() ? removed : status;
}

absl::StatusOr<LocalUpResult> LocalUp(const LocalOptions& options) {
  FileSystem& files = FileSystem::Real();
  if (const auto running = ReadLocalState(options.state_folder); running.ok()) {
    WEIR_RETURN_IF_ERROR(CheckServers(options, *running));
    return LocalUpResult{*running, "The local cluster is up already."};
  }
  const absl::StatusOr<std::string> last = ReadTextFile(AddressPath(options.state_folder));
  WEIR_RETURN_IF_ERROR(files.CreateFolder(options.state_folder));
  const absl::Status holder = LocalLock::Holder(options.state_folder).status();
  if (!absl::IsNotFound(holder)) {
    WEIR_RETURN_IF_ERROR(holder);
  } else {
    // Of a supervisor that was killed.
    if (files.Exists(LocalStatePath(options.state_folder))) {
      WEIR_RETURN_IF_ERROR(files.RemoveFile(LocalStatePath(options.state_folder)));
    }
    WEIR_RETURN_IF_ERROR(StartSupervisor(options));
  }
  const absl::Time start = options.clock->Now();
  bool held = false;
  while (options.clock->Now() - start < kUpTimeout) {
    options.sleep(kLook);
    const bool held_before = std::exchange(held, LocalLock::Holder(options.state_folder).ok());
    if (held && files.Exists(LocalStatePath(options.state_folder))) {
      WEIR_ASSIGN_OR_RETURN(const LocalState state, ReadLocalState(options.state_folder));
      return LocalUpResult{state, last.ok() ? Moved(*last, state.coordinator) : ""};
    }
    // It has ended, or never came so far as to take the lock.
    if (!held && (held_before || options.clock->Now() - start > kLockTimeout)) break;
  }
  return DidNotComeUp(options.state_folder);
}

absl::Status LocalDown(const LocalOptions& options, bool force) {
  if (!force) WEIR_RETURN_IF_ERROR(CheckNoJobRuns(options));
  const absl::Time deadline = options.clock->Now() + kDownTimeout;
  while (true) {
    const absl::StatusOr<pid_t> supervisor = LocalLock::Holder(options.state_folder);
    if (absl::IsNotFound(supervisor.status())) return absl::OkStatus();
    WEIR_RETURN_IF_ERROR(supervisor.status());
    if (options.clock->Now() > deadline) {
      return absl::DeadlineExceededError(absl::StrCat("the supervisor (process ", *supervisor,
                                                      ") of the local cluster does not end"));
    }
    kill(*supervisor, SIGTERM);
    options.sleep(kLook * 5);
  }
}

absl::StatusOr<LocalState> ReadLocalState(const std::string& state_folder) {
  const absl::Status holder = LocalLock::Holder(state_folder).status();
  if (absl::IsNotFound(holder)) {
    return absl::NotFoundError("no local cluster runs; `weir local up` starts one");
  }
  WEIR_RETURN_IF_ERROR(holder);
  WEIR_ASSIGN_OR_RETURN(const std::string json, ReadTextFile(LocalStatePath(state_folder)));
  return LocalStateFromJson(json);
}

}  // namespace weir
