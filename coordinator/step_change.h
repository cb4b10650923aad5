// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/job_context.h"
#include "weir/v1/server_control.pb.h"

namespace weir {

// A change that falls on one step on all servers of a job: PrepareStep to all with a step that has
// not begun anywhere, then CommitStep to all. A server that refuses the step makes all of them try
// a later one; any other failure undoes the change everywhere (AbortStep). Ends within its time
// limit. Thread-compatible.
//
//   preparing --(all agree)--> committing --(all done)--> finished: the step
//     ^  |                         |
//     +--+ (begun: a later step)   +--(refused, away, late)--> aborted: the failure
class StepChange {
 public:
  // So many steps behind the change's own, f, everybody goes by the new view: a push of f may have
  // been held under the old one, but none of f + 1 counts without the new one.
  static constexpr uint64_t kKnownAfter = 2;

  struct Options {
    uint64_t id = 0;  // unique in the run
    uint64_t run_id = 0;
    uint64_t attempt = 0;
    std::vector<v1::ServerInfo> servers;  // may be empty
    uint64_t first_step = 0;              // to be tried first
    uint32_t sync_group = 0;              // whose step it falls on
    uint64_t cut = 0;                     // of a checkpoint; 0: none
    // The view to come in force at `step`; null: no change of members.
    std::function<v1::JobView(CoordinatedJob&, uint64_t step)> view_at;
    absl::Time deadline;
  };
  struct Result {
    absl::Status status;
    uint64_t step = 0;
    bool perhaps_committed = false;  // a failure: somewhere the change may have been in force
  };
  using Finished = std::function<void(CoordinatedJob&, Turn&, const Result&)>;

  StepChange(const JobContext& context, Options options, Finished finished);

  // The first answer comes in a later turn, also where there are no servers.
  void Start(Turn& turn);
  uint64_t id() const { return options_.id; }
  bool committing() const { return committing_; }
  // Undoes it where nobody waits for the end any more; `finished` is not called.
  void Abandon(Turn& turn) { AbortAll(turn); }

 private:
  void Prepare(Turn& turn);
  void OnPrepared(CoordinatedJob& job, Turn& turn, uint64_t round, const absl::Status& status);
  void Commit(CoordinatedJob& job, Turn& turn);
  void OnCommitted(CoordinatedJob& job, Turn& turn, const absl::Status& status);
  void AbortAll(Turn& turn);
  void Finish(CoordinatedJob& job, Turn& turn, const absl::Status& status);
  // Each round has an id of its own on the wire: a late AbortStep must not undo a newer
  // PrepareStep.
  uint64_t WireId() const { return options_.id << 8 | round_; }
  // For replies: runs `fn` if this change is still the job's.
  template <typename Fn>
  std::function<void(absl::Status)> Reenter(Fn fn) const;

  const JobContext& context_;
  const Options options_;
  const Finished finished_;
  uint64_t step_;
  uint64_t margin_ = 0;
  uint64_t round_ = 0;  // of preparing; answers to earlier ones are late
  size_t waiting_for_ = 0;
  absl::Status failure_;  // the first of this phase
  absl::optional<uint64_t> highest_begun_;
  bool committing_ = false;
};

}  // namespace weir
