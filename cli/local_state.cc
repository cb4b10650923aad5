// SPDX-License-Identifier: Apache-2.0
#include "cli/local_state.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/file_system.h"
#include "common/status_macros.h"

namespace weir {
namespace {

using nlohmann::json;

struct flock WholeFile() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

std::string LockPath(const std::string& folder) {
  return folder + "/lock";
}

absl::Status NoLocks(const std::string& folder, int error) {
  return absl::InternalError(
      absl::StrCat("cannot lock ", LockPath(folder), ": ", std::strerror(error)));
}

}  // namespace

std::string LocalStatePath(const std::string& folder) {
  return folder + "/cluster.json";
}

std::string LocalStateToJson(const LocalState& state) {
  json processes = json::array();
  for (const LocalState::Process& process : state.processes) {
    processes.push_back({{"name", process.name},
                         {"address", process.address},
                         {"pid", process.pid},
                         {"restarts", process.restarts}});
  }
  return json({{"coordinator", state.coordinator}, {"processes", processes}}).dump(2) + "\n";
}

absl::StatusOr<LocalState> LocalStateFromJson(const std::string& text) {
  try {
    const json value = json::parse(text);
    LocalState state;
    state.coordinator = value.at("coordinator").get<std::string>();
    for (const json& process : value.at("processes")) {
      state.processes.push_back({.name = process.at("name").get<std::string>(),
                                 .address = process.at("address").get<std::string>(),
                                 .pid = process.at("pid").get<pid_t>(),
                                 .restarts = process.at("restarts").get<int>()});
    }
    return state;
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("the state of the local cluster cannot be read: ", error.what()));
  }
}

absl::StatusOr<std::unique_ptr<LocalLock>> LocalLock::Take(const std::string& folder) {
  WEIR_RETURN_IF_ERROR(FileSystem::Real().CreateFolder(folder));
  const int file = open(LockPath(folder).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) {
    return absl::InternalError(
        absl::StrCat("cannot write ", LockPath(folder), ": ", std::strerror(errno)));
  }
  struct flock lock = WholeFile();
  if (fcntl(file, F_SETLK, &lock) != 0) {
    const int error = errno;
    close(file);
    if (error != EACCES && error != EAGAIN) return NoLocks(folder, error);
    return absl::AlreadyExistsError(
        absl::StrCat("another supervisor runs the local cluster of ", folder));
  }
  return std::unique_ptr<LocalLock>(new LocalLock(file));
}

LocalLock::~LocalLock() {
  close(file_);
}

absl::StatusOr<pid_t> LocalLock::Holder(const std::string& folder) {
  const absl::Status nobody = absl::NotFoundError(absl::StrCat(LockPath(folder), " is not held"));
  const int file = open(LockPath(folder).c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nobody;
  struct flock lock = WholeFile();
  const int error = fcntl(file, F_GETLK, &lock) == 0 ? 0 : errno;
  close(file);
  if (error != 0) return NoLocks(folder, error);
  if (lock.l_type == F_UNLCK) return nobody;
  // 0: of no process of this container; negative: of another machine.
  if (lock.l_pid <= 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(LockPath(folder),
                     " is held on another machine or in another container; what holds it can be "
                     "asked and ended from there alone"));
  }
  return lock.l_pid;
}

}  // namespace weir
