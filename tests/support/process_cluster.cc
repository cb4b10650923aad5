// SPDX-License-Identifier: Apache-2.0
#include "tests/support/process_cluster.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "rpc/protocol.h"
#include "tests/support/sanitizer_reports.h"

namespace weir {
namespace {
// A loaded machine with sanitizers may be this slow.
constexpr absl::Duration kStartTimeout = absl::Seconds(60);
}  // namespace

ProcessCluster::ProcessCluster(Options options)
    : options_(std::move(options)),
      group_({.log_folder = options_.folder + "/logs",
              .clock = &Clock::Real(),
              .on_line = [this](const auto& name, const auto& line) { TakeLine(name, line); },
              .on_exit = [this](const auto& name, const auto& state) { ended_[name] = state; }}) {}

ProcessCluster::~ProcessCluster() {
  group_.Poll(absl::ZeroDuration());  // last words
  for (const auto& [name, report] : reports_) {
    if (!report.empty()) ADD_FAILURE() << name << ": " << report;
  }
}

void ProcessCluster::TakeLine(const std::string& name, const std::string& line) {
  std::string& report = reports_[name];
  if (!report.empty() || IsSanitizerReport(line)) absl::StrAppend(&report, line, "\n");
  if (absl::StartsWith(line, "SUMMARY: ")) {
    ADD_FAILURE() << name << ": " << std::exchange(report, "");
  }
  lines_[name].push_back(line);
}

absl::StatusOr<std::unique_ptr<ProcessCluster>> ProcessCluster::Start(Options options) {
  std::unique_ptr<ProcessCluster> cluster(new ProcessCluster(std::move(options)));
  WEIR_RETURN_IF_ERROR(cluster->StartCoordinator());
  for (int i = 0; i < cluster->options_.servers; ++i) {
    WEIR_RETURN_IF_ERROR(cluster->StartServer(i));
  }
  return cluster;
}

absl::Status ProcessCluster::StartCoordinator() {
  std::vector<std::string> arguments = {"--data-dir", options_.folder + "/coordinator"};
  arguments.insert(arguments.end(), options_.coordinator_flags.begin(),
                   options_.coordinator_flags.end());
  return StartDaemon("coordinator", "weir-coordinator", std::move(arguments));
}

absl::Status ProcessCluster::StartServer(int index) {
  const std::string name = absl::StrCat("server-", index);
  std::vector<std::string> arguments = {"--coordinator", coordinator(),
                                        "--name",        name,
                                        "--data-dir",    absl::StrCat(options_.folder, "/", name)};
  arguments.insert(arguments.end(), options_.server_flags.begin(), options_.server_flags.end());
  return StartDaemon(name, "weir-server", std::move(arguments));
}

absl::Status ProcessCluster::StartDaemon(const std::string& name, const std::string& program,
                                         std::vector<std::string> arguments) {
  const auto before = addresses_.find(name);
  arguments.push_back("--listen");
  arguments.push_back(before == addresses_.end() ? "127.0.0.1:0" : before->second);
  WEIR_RETURN_IF_ERROR(StartProgram(name, program, arguments));
  WEIR_ASSIGN_OR_RETURN(const std::string line, WaitForLine(name, kReadyMark, kStartTimeout));
  addresses_[name] = line.substr(line.find(kReadyMark) + sizeof kReadyMark - 1);
  return absl::OkStatus();
}

absl::Status ProcessCluster::StartProgram(const std::string& name, const std::string& program,
                                          const std::vector<std::string>& arguments) {
  ended_.erase(name);
  passed_[name] = lines_[name].size();
  return group_.Start(name, {.program = Program(program), .arguments = arguments});
}

absl::Status ProcessCluster::Kill(const std::string& name) {
  group_.Signal(name, SIGKILL);
  return WaitForExit(name, kStartTimeout).status();
}

void ProcessCluster::Terminate(const std::string& name) {
  group_.Signal(name, SIGTERM);
}

absl::StatusOr<ExitState> ProcessCluster::WaitForExit(const std::string& name,
                                                      absl::Duration timeout) {
  if (!group_.PollUntil([&] { return !group_.Runs(name); }, timeout)) {
    return absl::DeadlineExceededError(WithLastLines(absl::StrCat(name, " still runs"), name));
  }
  const auto state = ended_.find(name);
  if (state == ended_.end()) return absl::NotFoundError(absl::StrCat(name, " was never started"));
  return state->second;
}

absl::StatusOr<std::string> ProcessCluster::WaitForLine(const std::string& name,
                                                        const std::string& part,
                                                        absl::Duration timeout) {
  size_t& next = passed_[name];
  std::vector<std::string>& lines = lines_[name];
  bool found = false;
  bool ended = false;
  const auto look = [&] {
    ended = !group_.Runs(name);  // before the lines: they may have come with the end
    while (!found && next < lines.size()) found = absl::StrContains(lines[next++], part);
    return found || ended;
  };
  group_.PollUntil(look, timeout);
  if (found) return lines[next - 1];
  const std::string message =
      WithLastLines(absl::StrCat(name, " has not printed '", part, "'"), name);
  return ended ? absl::FailedPreconditionError(message + " and has ended")
               : absl::DeadlineExceededError(message);
}

std::string ProcessCluster::Output(const std::string& name) const {
  const auto lines = lines_.find(name);
  return lines == lines_.end() ? "" : absl::StrJoin(lines->second, "\n");
}

std::string ProcessCluster::WithLastLines(const std::string& message,
                                          const std::string& name) const {
  return absl::StrCat(message, "; its last lines:\n", absl::StrJoin(group_.LastLines(name), "\n"));
}

std::string ProcessCluster::Program(const std::string& name) {
  return absl::StrCat(WEIR_BIN_FOLDER, "/", name);
}

}  // namespace weir
