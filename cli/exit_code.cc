// SPDX-License-Identifier: Apache-2.0
#include "cli/exit_code.h"

namespace weir {
RunExit RunExitOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return RunExit::kDone;
    case absl::StatusCode::kInvalidArgument:
      return RunExit::kBadJob;
    case absl::StatusCode::kDataLoss:
      return RunExit::kData;
    case absl::StatusCode::kUnavailable:
      return RunExit::kNoCluster;
    default:
      return RunExit::kFailed;
  }
}

std::string MeaningOf(const ExitState& state) {
  if (state.signal != 0) return "";
  switch (static_cast<RunExit>(state.code)) {
    case RunExit::kBadJob:
      return "the job is wrong";
    case RunExit::kRefused:
      return "the cluster refused the job";
    case RunExit::kDiverged:
      return "the training diverged";
    case RunExit::kData:
      return "the data is missing or wrong";
    case RunExit::kNoCluster:
      return "the cluster was not reached";
    default:
      return "";
  }
}

bool IsRefusal(const ExitState& state) {
  return state.signal == 0 && state.code == static_cast<int>(RunExit::kRefused);
}

bool WouldEndAlike(const ExitState& state) {
  return state.ok() || !MeaningOf(state).empty();
}

}  // namespace weir
