// SPDX-License-Identifier: Apache-2.0
// A worker's membership in a job. C++17; no LibTorch, no protobuf, no gRPC.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "weir/variable.h"

namespace weir {

enum class JobState {
  kWaiting = 1,
  kInitialising,
  kRestoring,
  kRunning,
  kFinished,
  kFailed,
  kStopped
};

// What the newest view says, as far as a worker needs it.
struct JobInfo {
  uint64_t run_id = 0;
  uint64_t attempt = 0;
  uint64_t generation = 0;
  JobState state = JobState::kWaiting;
  std::string message;
  bool member = false;  // this worker is one
  uint32_t rank = 0;
  struct Member {
    uint32_t rank = 0;
    uint64_t first_step = 0;  // sync: the first step that counts it; bounded: its own first
    uint32_t sync_group = 0;  // whom it is in step with; 0 where there is one group
  };
  std::vector<Member> members;  // by rank
  uint32_t servers = 0;         // that hold the job's variables; 0: not placed yet
  bool initialiser = false;     // this worker assigns the initial values
  bool stop = false;            // end after the current step, but not before stop_step
  uint64_t stop_step = 0;       // sync, sync groups: the first that nobody in step with it runs
  std::string checkpoint_id;    // the attempt started from it; empty: from initial values
  uint64_t resume_step = 0;
  uint64_t resume_examples = 0;
  std::vector<uint64_t> resume_group_steps;  // [0] state, then by group
  uint64_t lost_steps = 0;
};

struct DataRange {  // positions [first, end) of permutation(seed, epoch)
  uint64_t epoch = 0;
  uint64_t first = 0;
  uint64_t end = 0;
};
struct TakenRanges {
  std::vector<DataRange> ranges;
  bool end_of_data = false;
};

struct BarrierOptions {
  absl::Duration timeout = absl::Minutes(10);
  // `sync`: the steps done by those who meet. Waits for the members whose first step is before, not
  // for one that joins beside them; where there is none such, and with 0, for all members.
  uint64_t step = 0;
};
struct BarrierResult {
  std::map<std::string, double> sums;  // over the members it waits for
  uint32_t members = 0;
};

// Where a step goes, in seconds: docs/glossary.md.
struct StepSeconds {
  double input = 0;
  double pull = 0;
  double compute = 0;
  double push = 0;
  double wait = 0;

  double total() const { return input + pull + compute + push + wait; }
  StepSeconds& operator+=(const StepSeconds& other) {
    input += other.input;
    pull += other.pull;
    compute += other.compute;
    push += other.push;
    wait += other.wait;
    return *this;
  }
  // Of several steps, or shares of one.
  StepSeconds DividedBy(double number) const {
    const double n = number > 0 ? number : 1;
    return {input / n, pull / n, compute / n, push / n, wait / n};
  }
};

struct Progress {
  uint64_t step = 0;
  uint64_t examples = 0;
  double samples_per_second = 0;
  double staleness = 0;
  uint64_t late_pushes = 0;  // in this attempt: PushStats::late
  StepSeconds step_seconds;  // means over the interval
  std::map<std::string, double> metrics;
};

// Thread-safe. Heartbeats run on a thread of their own for as long as this lives. Every call may
// besides answer Unavailable - the coordinator was away until the call's time was over; Cancelled -
// the session ends.
class JobSession {
 public:
  virtual ~JobSession() = default;

  virtual JobInfo Info() const = 0;

  // Idempotent. Errors: InvalidArgument - makes no sense, names variable or group, and field;
  // FailedPrecondition - differs from what is declared, or does not fit the checkpoint that the job
  // starts from: names the first difference; ResourceExhausted - over the quota or the servers'
  // memory, with the numbers; Aborted - no member. After an error nothing is declared.
  virtual absl::Status Declare(const Declaration& declaration) = 0;

  // Returns when the job runs, or initialises and this worker is the initialiser.
  // Errors: FailedPrecondition - finished or failed, with its message; Aborted - no longer a
  // member; DeadlineExceeded - says what is missing (at once, where nobody else could bring it).
  virtual absl::StatusOr<JobInfo> WaitUntilReady(absl::Duration timeout) = 0;
  // Idempotent. Errors: FailedPrecondition - this worker is not asked for initial values, or the
  // job has ended; Aborted - the job was rolled back, or this worker is no member; DeadlineExceeded
  // - the coordinator did not answer within a minute.
  virtual absl::Status ReportInitialised() = 0;

  // Returns when the job is in another attempt than this one. Errors: Aborted - no longer a member,
  // or there will be no other attempt; FailedPrecondition - finished or failed; DeadlineExceeded.
  virtual absl::Status WaitForOtherAttempt(uint64_t attempt, absl::Duration timeout) = 0;

  // Counts workers. Names are unique within an attempt; at most 256 bytes, like those of the
  // values, of which there are at most 256. Errors: InvalidArgument - no such name, too many
  // values; FailedPrecondition - the job has ended; Aborted - it was rolled back, or this worker is
  // no member; DeadlineExceeded - names who is missing.
  virtual absl::StatusOr<BarrierResult> Barrier(const std::string& name,
                                                const std::map<std::string, double>& values,
                                                const BarrierOptions& options) = 0;

  // Ranges of about `examples` more, in whole batches, or that there are no more: each position of
  // each epoch once. None, and not the end, after `timeout`: others hold the rest. Errors:
  // FailedPrecondition - a job in sync or without data, or one that has ended; Unavailable - it
  // does not run yet; Aborted - it was rolled back, or this worker is no member; DeadlineExceeded -
  // no answer. A call after one that failed gets what that one missed.
  virtual absl::StatusOr<TakenRanges> TakeRanges(uint64_t examples, absl::Duration timeout) = 0;

  virtual void ReportProgress(const Progress& progress) = 0;  // never waits

  // Asks for a checkpoint and waits until it is committed, 10 minutes at most. Returns its id.
  // Errors: FailedPrecondition - the job has ended, or is a local one that does not run or has no
  // data folder; DeadlineExceeded - says what is waited for; and after some failures the last one:
  // ResourceExhausted - no room, DataLoss - the disk. The checkpoints before it stay.
  virtual absl::StatusOr<std::string> SaveCheckpoint(
      const std::map<std::string, double>& metrics) = 0;

  // finished: the job is done, as far as this worker knows. Else it gives up, and says why. From
  // here on the worker is no member. Idempotent.
  // Errors: DeadlineExceeded, Unavailable - the coordinator did not hear it; the lease ends then.
  virtual absl::Status Leave(bool finished, const std::string& reason) = 0;
  // As one that has no more to do leaves: like Leave(false, reason), if any other worker is left.
  // False: this is the last one, as Info() says now, and stays, to end the job. Waits until another
  // is heard, or the leases of those that may be dead are over. Errors: as for Leave, but that the
  // worker may be a member still.
  virtual absl::StatusOr<bool> LeaveToOthers(const std::string& reason) = 0;
};

}  // namespace weir
