// SPDX-License-Identifier: Apache-2.0
#include "cli/process_group.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace weir {
namespace {
constexpr size_t kLastLines = 20;
}  // namespace

ProcessGroup::ProcessGroup(Options options) : options_(std::move(options)) {}
ProcessGroup::~ProcessGroup() = default;

absl::Status ProcessGroup::Start(const std::string& name, const ChildOptions& options) {
  if (Runs(name)) return absl::AlreadyExistsError(absl::StrCat(name, " runs already"));
  std::error_code error;
  std::filesystem::create_directories(options_.log_folder, error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat(options_.log_folder, ": cannot be made: ", error.message()));
  }
  const std::string path = absl::StrCat(options_.log_folder, "/", name, ".log");
  Child child;
  child.log.reset(std::fopen(path.c_str(), "ae"));
  if (child.log == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
  }
  WEIR_ASSIGN_OR_RETURN(child.process, ChildProcess::Start(options));
  last_lines_[name].clear();
  children_.emplace(name, std::move(child));
  return absl::OkStatus();
}

void ProcessGroup::Poll(absl::Duration timeout) {
  std::vector<pollfd> fds;
  std::vector<std::string> names;
  for (const auto& [name, child] : children_) {
    fds.push_back({.fd = child.process->output_fd(), .events = POLLIN, .revents = 0});
    names.push_back(name);
  }
  // An exit is seen late where a grandchild holds the output open, so no wait is longer than this.
  const absl::Duration wait = std::min(timeout, absl::Milliseconds(50));
  poll(fds.data(), fds.size(), static_cast<int>(absl::ToInt64Milliseconds(wait)));
  for (const std::string& name : names) {
    const auto child = children_.find(name);
    if (child != children_.end()) ReadAll(name, child->second);
  }
  while (ReapOne()) {
  }
}

void ProcessGroup::ReadAll(const std::string& name, Child& child) {
  const std::vector<std::string> lines = child.process->ReadLines();
  for (const std::string& line : lines) {
    std::fprintf(child.log.get(), "%s\n", line.c_str());
    std::deque<std::string>& last = last_lines_[name];
    last.push_back(line);
    if (last.size() > kLastLines) last.pop_front();
  }
  if (!lines.empty()) std::fflush(child.log.get());
  for (const std::string& line : lines) {
    if (options_.on_line) options_.on_line(name, line);
  }
}

bool ProcessGroup::ReapOne() {
  for (auto& [name, child] : children_) {
    const std::optional<ExitState> state = child.process->Ended();
    if (!state) continue;
    const std::string ended = name;  // the entry goes before the handler may start it anew
    ReadAll(ended, child);
    children_.erase(ended);
    if (options_.on_exit) options_.on_exit(ended, *state);
    return true;
  }
  return false;
}

bool ProcessGroup::PollUntil(const std::function<bool()>& condition, absl::Duration timeout) {
  const absl::Time deadline = options_.clock->Now() + timeout;
  while (!condition()) {
    const absl::Duration left = deadline - options_.clock->Now();
    if (left <= absl::ZeroDuration()) return false;
    Poll(left);
  }
  return true;
}

pid_t ProcessGroup::Pid(const std::string& name) const {
  const auto child = children_.find(name);
  return child == children_.end() ? 0 : child->second.process->pid();
}

std::vector<std::string> ProcessGroup::LastLines(const std::string& name) const {
  const auto lines = last_lines_.find(name);
  if (lines == last_lines_.end()) return {};
  return {lines->second.begin(), lines->second.end()};
}

void ProcessGroup::Signal(const std::string& name, int signal) {
  const auto child = children_.find(name);
  if (child != children_.end()) child->second.process->Signal(signal);
}

std::vector<std::string> ProcessGroup::Stop(const std::vector<std::string>& names,
                                            absl::Duration grace) {
  const auto none_runs = [&] {
    return std::none_of(names.begin(), names.end(), [&](const auto& name) { return Runs(name); });
  };
  for (const std::string& name : names) Signal(name, SIGTERM);
  std::vector<std::string> killed;
  if (PollUntil(none_runs, grace)) return killed;
  for (const std::string& name : names) {
    if (!Runs(name)) continue;
    killed.push_back(name);
    Signal(name, SIGKILL);
  }
  PollUntil(none_runs, absl::Seconds(10));
  return killed;
}

}  // namespace weir
