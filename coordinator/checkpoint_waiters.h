// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/turn.h"
#include "weir/v1/coordinator.pb.h"

namespace weir {

// Who waits for a checkpoint of one job: for the one under way, or, having asked after its cut, for
// the next one. Thread-compatible.
class CheckpointWaiters {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<v1::SaveCheckpointReply>) &&>;
  struct Waiter {
    std::map<std::string, double> metrics;  // to be kept with the checkpoint
    absl::Time deadline;
    Done done;
  };

  void Add(Waiter waiter) { present_.push_back(std::move(waiter)); }
  void AddToNext(Waiter waiter) { next_.push_back(std::move(waiter)); }

  // Nobody waits for the one under way.
  bool empty() const { return present_.empty(); }
  // Theirs who wait for the one under way.
  void FillMetrics(v1::Manifest& manifest) const;
  // Answers those who wait for the one under way.
  void Answer(const absl::StatusOr<v1::SaveCheckpointReply>& reply, Turn& turn);
  // The one under way is over: who still waits, waits for the next one.
  void BeginNext();
  // Answers those whose time is over, with what is waited for.
  void Expire(absl::FunctionRef<std::string()> what, Turn& turn);

 private:
  std::vector<Waiter> present_;
  std::vector<Waiter> next_;
};

}  // namespace weir
