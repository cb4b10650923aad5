// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rpc/worker_id.h"
#include "weir/v1/coordinator.pb.h"
#include "weir/v1/coordinator_state.pb.h"

namespace weir {

// What a view says of a member besides who it is.
struct MemberPlace {
  uint64_t first_step = 0;
  uint32_t sync_group = 0;
};

// Errors: InvalidArgument - a job with so many ranks does not have this one; below 0: any will do.
absl::Status CheckRank(int32_t wanted, uint32_t ranks);

// The workers of one run: ranks, leases, progress. Thread-compatible.
class Roster {
 public:
  struct Worker {
    WorkerId id{};
    uint32_t rank = 0;
    std::string host;
    bool joining = false;     // registered, but no member before a step boundary
    uint64_t first_step = 0;  // of a member: the first that counts it
    absl::Time last_heard;
    absl::Time lease_end;
    absl::Time progressed;    // when its step last changed
    uint64_t step = 0;        // highest that it has told in this attempt
    v1::Progress progress{};  // last report in this attempt
  };
  struct Options {
    uint32_t ranks = 1;
    absl::Duration lease;
    absl::Duration heartbeat;
  };

  explicit Roster(Options options) : options_(options) {}

  // At start: everybody has one full lease.
  void Load(const v1::JobRecord& record, absl::Time now);
  void Save(v1::JobRecord& record) const;

  // Idempotent. `wanted_rank` -1: the lowest free one.
  // Errors: InvalidArgument - no such rank; FailedPrecondition - the rank is taken, or all are, by
  // holders who have been heard since this worker first asked; Unavailable - they are, but a holder
  // may be dead: try again; Aborted - this incarnation has left, or its lease had ended.
  absl::StatusOr<uint32_t> Add(WorkerId worker, int32_t wanted_rank, const std::string& host,
                               absl::Time now);
  // Whether every worker has been heard since `newcomer` first asked. Errors: Unavailable - one has
  // not, and may be dead; it lives or is gone when its lease ends.
  absl::Status CheckAllLive(WorkerId newcomer, absl::Time now);
  // Whether another worker has been heard since `leaver` first asked. Errors: Unavailable - none
  // has, though there are some: each lives or is gone when its lease ends.
  absl::Status CheckAnyOtherLives(WorkerId leaver, absl::Time now);
  // `step`: in this attempt; 0: it tells none. Errors: NotFound; Aborted - as above.
  absl::Status Heartbeat(WorkerId worker, uint64_t step, absl::Time now);
  void Report(WorkerId worker, const v1::Progress& progress, absl::Time now);
  // Counts as progress though the step stays: the worker waits for others.
  void Touch(WorkerId worker, absl::Time now);
  void Remove(WorkerId worker, const std::string& why);
  // We were deaf for so long: that counts against nobody.
  void Extend(absl::Duration deaf);
  void SetJoining(WorkerId worker);
  // A member from now on; also of one that is.
  void Admit(WorkerId worker, uint64_t first_step);
  // A new attempt begins at `step`; what was told in those before is forgotten.
  void StartAttempt(uint64_t step, absl::Time now);

  // OK for a live worker.
  // Errors: NotFound; Aborted - it has left, or its lease had ended.
  absl::Status Check(WorkerId worker) const;
  const Worker* Find(WorkerId worker) const;
  // By rank; those that are no members yet left out.
  std::vector<const Worker*> Members() const;
  // Who comes to a barrier of those that have done `step` steps: the members whose first step is
  // before; all, where there is none such, or `step` is 0.
  std::vector<const Worker*> MembersAt(uint64_t step) const;
  std::vector<WorkerId> Joining() const;
  bool empty() const { return workers_.empty(); }
  size_t size() const { return workers_.size(); }
  // "rank 1 (host-b)"
  std::string Describe(WorkerId worker) const;

  // Whose lease is over.
  std::vector<WorkerId> Expired(absl::Time now) const;
  // Members that have made no step for `timeout`: of those, the ones furthest behind, for whom
  // the others may be waiting.
  std::vector<WorkerId> Stuck(absl::Time now, absl::Duration timeout) const;

  uint64_t highest_step() const { return highest_step_; }
  // Of the members, the furthest behind; 0: there is none.
  uint64_t lowest_step() const;
  // The step that the worker is in, as far as it has told.
  static uint64_t StepOf(const Worker& worker) { return std::max(worker.step, worker.first_step); }
  // Examples consumed in this attempt, and pushes that came late, by the departed too.
  uint64_t examples() const;
  uint64_t late_pushes() const;

 private:
  absl::Time FirstAsked(WorkerId worker, absl::Time now);
  absl::Status MayBeDead(const Worker& holder, absl::Time now) const;
  absl::Status Taken(const Worker& holder, absl::Time since, absl::Time now) const;
  absl::StatusOr<uint32_t> ChooseRank(int32_t wanted_rank, absl::Time since, absl::Time now) const;
  void Advance(Worker& worker, uint64_t step, absl::Time now);

  const Options options_;
  std::map<WorkerId, Worker> workers_;
  std::map<WorkerId, std::string> departed_;  // why
  std::vector<WorkerId> departed_order_;      // oldest first
  // Newcomers without a place, and those who would leave: since when.
  std::map<WorkerId, absl::Time> asked_;
  uint64_t highest_step_ = 0;
  uint64_t departed_examples_ = 0;
  uint64_t departed_late_pushes_ = 0;
};

}  // namespace weir
