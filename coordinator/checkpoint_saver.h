// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/checkpoint_waiters.h"
#include "coordinator/range_dispenser.h"
#include "coordinator/step_change.h"
#include "coordinator/turn.h"
#include "rpc/worker_id.h"
#include "weir/v1/coordinator.pb.h"

namespace weir {

class CoordinatedJob;

// The checkpoints of one running job: when one is due, its cut, the servers' parts, the manifest
// that commits it, and the old ones that go. What fails is dropped and tried again with backoff.
// Thread-compatible.
//
//   idle -> beginning -> cutting -> saving -> committing -> idle
//              |            |          |          |
//              +------------+----------+----------+--> dropped, idle; again after a while
class CheckpointSaver {
 public:
  using Done = CheckpointWaiters::Done;

  // `job` owns this.
  explicit CheckpointSaver(CoordinatedJob& job) : job_(job) {}

  // Answers when a checkpoint is committed whose cut is after this call; those asked for before a
  // cut is taken share it. Errors: DeadlineExceeded - says what is waited for; the last failure,
  // after some; FailedPrecondition - the job has ended.
  void Request(const std::map<std::string, double>& metrics, absl::Time deadline, Done done,
               Turn& turn);
  // A worker has marked the cut. Idempotent; other cuts than the present one are over.
  void ReportCut(const v1::ReportCutRequest& request, Turn& turn);

  // Starts what is due or wanted.
  void Tick(Turn& turn);
  // What is under way cannot be completed: it is tried again.
  void OnMemberGone(Turn& turn);
  // A new attempt begins, or a restarted coordinator goes on: intervals count from here. `saved`:
  // what there is, is in a checkpoint.
  void Rebase(absl::Time now, bool saved);
  // A rollback: what is under way is over; who waits still waits.
  void Interrupt(const absl::Status& why, Turn& turn);
  // The job has ended.
  void End(const absl::Status& why, Turn& turn);
  // A change of members must wait.
  bool cutting() const { return phase_ == Phase::kCutting; }
  // There have been members since the cut of the newest checkpoint: they may have trained.
  bool has_news() const { return has_news_; }

 private:
  enum class Phase { kIdle, kBeginning, kCutting, kSaving, kCommitting };

  bool IsDue(const Turn& turn) const;
  bool NothingTrained() const;
  void NoteMembers();
  bool StillJoinable() const;
  std::string Describe() const;
  void Start(Turn& turn);
  void OnBegun(const absl::StatusOr<std::string>& id, Turn& turn);
  void Cut(Turn& turn);
  void CutAtStep(Turn& turn);
  void AskForMarks(Turn& turn);
  void OnMarked(Turn& turn);
  void SaveParts(Turn& turn);
  void OnPart(size_t part, const absl::StatusOr<v1::SavePartReply>& reply, Turn& turn);
  absl::Status Complete();
  void Commit(Turn& turn);
  void OnCommitted(const absl::Status& status, Turn& turn);
  void Fail(const absl::Status& why, Turn& turn);
  // For answers: runs `fn(saver, turn, result)` if this checkpoint is still the one under way.
  template <typename Result, typename Fn>
  auto Reenter(Fn fn);

  CoordinatedJob& job_;
  Phase phase_ = Phase::kIdle;
  uint64_t save_ = 0;      // counts tries, so that late answers are told from present ones
  v1::Manifest manifest_;  // of the one under way
  std::vector<v1::ServerInfo> servers_;  // that write a part
  size_t parts_missing_ = 0;
  bool waiting_for_change_ = false;  // a join is under way; the cut comes after it
  uint64_t cut_ = 0;
  absl::Time marks_deadline_;
  std::set<WorkerId> unmarked_;
  std::vector<v1::CutMark> marks_;
  std::map<RangeHolder, uint64_t> consumed_;
  CheckpointWaiters waiters_;
  int failures_ = 0;  // in a row
  absl::Time retry_at_ = absl::InfinitePast();
  bool has_news_ = true;
  bool news_since_cut_ = true;  // of the one under way
  // Since the last one, or where this began.
  uint64_t base_steps_ = 0;
  uint64_t base_examples_ = 0;
  absl::Time base_time_;
};

}  // namespace weir
