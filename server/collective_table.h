// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/executor.h"
#include "common/mutex.h"
#include "rpc/parameter_endpoint.h"
#include "server/buffer_pool.h"
#include "server/deadline_queue.h"
#include "server/meeting.h"
#include "server/member_set.h"
#include "server/memory_budget.h"
#include "server/reduce_call.h"

namespace weir {

// The collectives of one attempt of a job, as far as they live on this server
// (docs/collectives.md).
//
// Piece 0 of every collective of a job comes to the same server, so that members who call different
// things always meet, and find out at once; all but one of these meetings are done. Pieces after it
// are agreed upon and only have to be combined.
//
// A result is kept until each member that took part can no longer ask for it: it has called a later
// collective here, or says that the piece is done, or has left. So what is kept is bounded by the
// members' credit.
//
// Thread-safe. Its lock comes after the store's. Callbacks run, bytes are copied and combined, and
// memory is given back, without it: as effects, which the caller of a method runs.
class CollectiveTable final : public std::enable_shared_from_this<CollectiveTable> {
 public:
  struct Options {
    const Clock* clock = nullptr;  // must outlive the table, like what follows
    Executor* executor = nullptr;
    BufferPool* pool = nullptr;
    std::shared_ptr<MemoryBudget> budget;  // shared with its reservations
    uint64_t payload_bytes = 1 << 20;      // that a message should carry
  };
  using Effects = std::vector<Task>;

  static std::shared_ptr<CollectiveTable> Create(Options options) {
    return std::shared_ptr<CollectiveTable>(new CollectiveTable(std::move(options)));
  }

  // The members in force. Whoever has left is waited for no more: a collective that opens its step
  // closes without it where it has not come yet; every other one that it counts in fails.
  void SetMembers(std::shared_ptr<const MemberSet> members, uint64_t generation, Effects& effects);
  // Ends all that waits with `why`, and takes nothing more.
  void End(const absl::Status& why, Effects& effects);

  // `done` is called once. Errors: InvalidArgument - the members call different things (on all of
  // them), a payload of another size; Aborted - StaleView, NotAMember, MemberLeft; Unavailable -
  // this server's view is older; ResourceExhausted - the memory limit; DeadlineExceeded - names who
  // is missing; FailedPrecondition - a call that its worker has gone beyond.
  void Reduce(const ReduceCall& call, Payload payload, absl::Time deadline,
              ParameterEndpoint::ReduceDone done);

 private:
  using MeetingRef = std::shared_ptr<Meeting>;  // shared with those that copy or combine meanwhile
  // How far a member has come here.
  struct Progress {
    uint64_t sequence = 0;
    uint64_t pieces_done = 0;  // of that call
  };
  struct Departure {
    MemberInfo member;
    uint64_t generation = 0;  // the first without it
  };

  explicit CollectiveTable(Options options) : options_(std::move(options)) {}

  // collective_join.cc: how a call finds its meeting. Null: it has only to wait, or to be answered.
  absl::StatusOr<MeetingRef> Join(const ReduceCall& call, uint64_t payload_bytes,
                                  absl::Time deadline, ParameterEndpoint::ReduceDone& done,
                                  Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckSender(const ReduceCall& call, uint64_t payload_bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Proceed(const ReduceCall& call, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckStepIsWhole(const ReduceCall& call) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  MeetingRef FindOwn(const ReduceCall& call) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  MeetingRef FindUntold(const ReduceCall& call) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  MeetingRef FindOpen(const ReduceCall& call, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<MeetingRef> Open(const ReduceCall& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WaitOrAnswer(Meeting& meeting, WorkerId worker, absl::Time deadline,
                    ParameterEndpoint::ReduceDone& done, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // collective_table.cc: what becomes of meetings.
  void Bring(const MeetingRef& meeting, const ReduceCall& call, const Payload& payload);
  void CloseIfAllAreHere(const MeetingRef& meeting, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Close(const MeetingRef& meeting);
  void Settle(Meeting& meeting, std::shared_ptr<const MeetingResult> result, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fail(Meeting& meeting, absl::Status why, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Leave(const MemberInfo& member, Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Withdraw(Meeting& meeting, WorkerId worker, const absl::Status& why, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AnswerWaiting(Meeting& meeting, WorkerId worker, const absl::Status& why, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropFinished(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ArmTimer(absl::Time due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnDeadline(absl::Time armed_for);
  void Expire(uint64_t id, Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  Mutex mutex_;
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const MemberSet> members_ ABSL_GUARDED_BY(mutex_) =
      std::make_shared<const MemberSet>();
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t first_generation_ ABSL_GUARDED_BY(mutex_) = 0;  // that this server has known
  std::vector<Departure> departures_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<WorkerId, Progress> progress_ ABSL_GUARDED_BY(mutex_);
  std::vector<MeetingRef> meetings_ ABSL_GUARDED_BY(mutex_);  // few: what credit lets be open
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  DeadlineQueue deadlines_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
