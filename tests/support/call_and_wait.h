// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/notification.h"

namespace weir {

// The result of a call that answers through a callback:
//   CallAndWait<PullResult>([&](auto done) { endpoint.Pull(request, deadline, std::move(done)); });
template <typename Result, typename Start>
absl::StatusOr<Result> CallAndWait(Start start) {
  struct State {
    Notification answered;
    absl::StatusOr<Result> result;
  };
  auto state = std::make_shared<State>();
  start([state](absl::StatusOr<Result> result) {
    state->result = std::move(result);
    state->answered.Notify();
  });
  if (!state->answered.WaitFor(absl::Minutes(1))) {
    return absl::DeadlineExceededError("the callback was not called within a minute");
  }
  return std::move(state->result);
}

}  // namespace weir
