// SPDX-License-Identifier: Apache-2.0
#include "coordinator/checkpoint_waiters.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace weir {

void CheckpointWaiters::FillMetrics(v1::Manifest& manifest) const {
  for (const Waiter& waiter : present_) {
    for (const auto& [name, value] : waiter.metrics) (*manifest.mutable_metrics())[name] = value;
  }
}

void CheckpointWaiters::Answer(const absl::StatusOr<v1::SaveCheckpointReply>& reply, Turn& turn) {
  for (Waiter& waiter : std::exchange(present_, {})) {
    AnswerLater<v1::SaveCheckpointReply>(turn, std::move(waiter.done), reply);
  }
}

void CheckpointWaiters::BeginNext() {
  std::move(next_.begin(), next_.end(), std::back_inserter(present_));
  next_.clear();
}

void CheckpointWaiters::Expire(absl::FunctionRef<std::string()> what, Turn& turn) {
  for (std::vector<Waiter>* waiters : {&present_, &next_}) {
    const auto due =
        std::stable_partition(waiters->begin(), waiters->end(),
                              [&](const Waiter& waiter) { return waiter.deadline > turn.now(); });
    for (auto waiter = due; waiter != waiters->end(); ++waiter) {
      AnswerLater<v1::SaveCheckpointReply>(turn, std::move(waiter->done),
                                           absl::DeadlineExceededError(what()));
    }
    waiters->erase(due, waiters->end());
  }
}

}  // namespace weir
