// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/mutex.h"

namespace weir {

// Where the replicas of one process, each on a thread of its own, meet during a step: for
// collectives and for the steps of optimizers. They meet in the same order; whoever comes last
// works for all. What goes wrong with one of them fails the step for all, at once.
//
// With `in_turn` one replica runs at a time, from meeting to meeting, always in the same order: so
// that what they draw from a generator of the process is the same in every run.
//
// Thread-safe: each replica calls from its own thread.
class ReplicaMeeting {
 public:
  struct Options {
    uint32_t replicas = 1;
    absl::Duration timeout = absl::Minutes(10);  // of the wait for the last to come
    bool in_turn = false;
    // On the replica's thread: after it was given the turn, and before it gives it away.
    std::function<void(uint32_t replica)> turn_taken, turn_passed;
  };
  // By replica: what each brought to the meeting.
  using Work = std::function<absl::Status(absl::Span<const void* const> contributions)>;

  explicit ReplicaMeeting(Options options);

  // A step begins, with nobody in the one before. Replica ids in messages begin with `first_id`.
  void Begin(uint64_t step, uint32_t first_id);

  // The replicas are counted from 0 here. Each calls Start, any number of times Meet, and End.
  void Start(uint32_t replica);
  // `call` is equal on all: what is called, for people. The contribution is valid until Meet
  // returns, and of the type that the work expects of such a call. Returns when all have come and
  // one has done its `work`. Errors: InvalidArgument - the others call something else, or have
  // ended their step; DeadlineExceeded - who is missing; the error of the work, or of a replica
  // that failed.
  absl::Status Meet(uint32_t replica, const std::string& call, const void* contribution,
                    const Work& work);
  // A status that is not OK fails the step, naming the replica.
  void End(uint32_t replica, const absl::Status& status);

  // Of the step: the first thing that went wrong in it.
  absl::Status failure() const;
  uint32_t replicas() const { return options_.replicas; }

 private:
  enum class State { kRuns, kWaits, kEnded };
  struct Seat {
    State state = State::kRuns;
    const void* contribution = nullptr;
  };

  std::string NameOf(uint32_t replica) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Place() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Not OK: this replica cannot meet the others here.
  absl::Status Enter(uint32_t replica, const std::string& call, const void* contribution)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AwaitEnd(uint32_t replica, uint64_t meeting) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fail(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndMeeting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // To the first replica behind `after` that runs.
  void PassTurn(uint32_t after) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AwaitTurn(uint32_t replica) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  mutable Mutex mutex_;
  CondVar changed_;
  uint64_t step_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t first_id_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  std::vector<Seat> seats_ ABSL_GUARDED_BY(mutex_);
  uint64_t meeting_ ABSL_GUARDED_BY(mutex_) = 0;  // of this step, from 0
  uint32_t came_ ABSL_GUARDED_BY(mutex_) = 0;     // to this meeting
  std::string call_ ABSL_GUARDED_BY(mutex_);      // what the first to come called
  uint32_t first_ ABSL_GUARDED_BY(mutex_) = 0;    // who that was
  uint32_t turn_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace weir
