// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/roster.h"
#include "coordinator/turn.h"
#include "weir/v1/coordinator.pb.h"
#include "weir/v1/coordinator_state.pb.h"

namespace weir {

// The barriers of one attempt. Counts workers, not messages: who enters twice counts once, with the
// first values. No thread waits: answers are effects of the turn that completes a barrier.
// Thread-compatible.
class BarrierTable {
 public:
  static constexpr size_t kMostOpen = 64;
  static constexpr size_t kMostKept = 64;  // results; the oldest go first

  using Done = absl::AnyInvocable<void(absl::StatusOr<v1::BarrierReply>) &&>;

  void Load(const v1::JobRecord& record);
  void Save(v1::JobRecord& record) const;

  // Enters for a live worker. Completes the barrier when it was the last; whoever comes after
  // gets the same result. A name beyond kMostOpen is answered with ResourceExhausted. True: the
  // state to be kept has changed.
  bool Enter(const v1::BarrierRequest& request, absl::Time deadline, Done done,
             const Roster& roster, Turn& turn);
  // After members have gone: completes what waited for them only. True: as above.
  bool Evaluate(const Roster& roster, Turn& turn);
  // Answers calls that are at their deadline with DEADLINE_EXCEEDED, naming who is missing. Their
  // workers stay entered.
  void Expire(const Roster& roster, Turn& turn);
  // A new attempt, or the end: all calls end in `why`, results are forgotten.
  void Clear(const absl::Status& why, Turn& turn);
  bool IsWaiting(WorkerId worker) const;

 private:
  struct Call {
    WorkerId worker{};
    absl::Time deadline;
    Done done;
  };
  struct Barrier {
    std::map<WorkerId, std::map<std::string, double>> entered;  // by worker: its values
    std::vector<Call> calls;
    uint64_t step = 0;  // BarrierRequest.step, the lowest that came; 0: counts all members
  };

  // Erases it and answers true where every member that it counts has entered.
  bool CompleteIfFull(const std::string& name, const Roster& roster, Turn& turn);
  const v1::BarrierReply* FindResult(const std::string& name) const;
  void KeepResult(const std::string& name, v1::BarrierReply result);
  static std::string Missing(const Barrier& barrier, const Roster& roster);

  std::map<std::string, Barrier> open_;
  std::deque<v1::BarrierRecord> complete_;  // oldest first
};

}  // namespace weir
