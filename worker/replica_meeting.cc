// SPDX-License-Identifier: Apache-2.0
#include "worker/replica_meeting.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/clock.h"
#include "common/status_macros.h"

namespace weir {

ReplicaMeeting::ReplicaMeeting(Options options)
    : options_(std::move(options)), seats_(options_.replicas) {}

std::string ReplicaMeeting::NameOf(uint32_t replica) const {
  return absl::StrCat("replica ", first_id_ + replica);
}

std::string ReplicaMeeting::Place() const {
  return absl::StrCat("as meeting ", meeting_, " of step ", step_);
}

void ReplicaMeeting::Begin(uint64_t step, uint32_t first_id) {
  MutexLock lock(mutex_);
  step_ = step;
  first_id_ = first_id;
  failure_ = absl::OkStatus();
  seats_.assign(options_.replicas, Seat());
  meeting_ = 0;
  came_ = 0;
  turn_ = 0;
}

void ReplicaMeeting::Start(uint32_t replica) {
  if (!options_.in_turn) return;
  {
    MutexLock lock(mutex_);
    AwaitTurn(replica);
  }
  options_.turn_taken(replica);
}

absl::Status ReplicaMeeting::Enter(uint32_t replica, const std::string& call,
                                   const void* contribution) {
  WEIR_RETURN_IF_ERROR(failure_);
  for (uint32_t other = 0; other < seats_.size(); ++other) {
    if (seats_[other].state != State::kEnded) continue;
    return absl::InvalidArgumentError(absl::StrCat(NameOf(other), " has ended its step, but ",
                                                   NameOf(replica), " calls ", call, ", ",
                                                   Place()));
  }
  if (came_ == 0) {
    call_ = call;
    first_ = replica;
  } else if (call_ != call) {
    return absl::InvalidArgumentError(absl::StrCat(NameOf(replica), " calls ", call, ", ",
                                                   NameOf(first_), " ", call_, ", ", Place()));
  }
  seats_[replica] = {State::kWaits, contribution};
  ++came_;
  return absl::OkStatus();
}

absl::Status ReplicaMeeting::Meet(uint32_t replica, const std::string& call,
                                  const void* contribution, const Work& work) {
  if (options_.in_turn) options_.turn_passed(replica);
  std::vector<const void*> contributions;
  absl::Status status;
  {
    MutexLock lock(mutex_);
    status = Enter(replica, call, contribution);
    if (!status.ok()) {
      Fail(status);
    } else if (came_ < seats_.size()) {
      const uint64_t meeting = meeting_;
      PassTurn(replica);
      AwaitEnd(replica, meeting);
      AwaitTurn(replica);
      status = failure_;
    } else {
      for (const Seat& seat : seats_) contributions.push_back(seat.contribution);
    }
  }
  if (!contributions.empty()) {
    // The others wait: what they brought stays as it is.
    status = work(contributions);
    MutexLock lock(mutex_);
    if (!status.ok()) Fail(status);
    EndMeeting();
    PassTurn(static_cast<uint32_t>(seats_.size()) - 1);
    AwaitTurn(replica);
  }
  if (options_.in_turn) options_.turn_taken(replica);
  return status;
}

void ReplicaMeeting::AwaitEnd(uint32_t replica, uint64_t meeting) {
  const absl::Time until = Clock::Real().Now() + options_.timeout;
  while (failure_.ok() && meeting_ == meeting) {
    const absl::Duration left = until - Clock::Real().Now();
    if (came_ == seats_.size()) {
      // The work has a bound of its own.
      changed_.Wait(mutex_);
    } else if (left > absl::ZeroDuration()) {
      changed_.WaitFor(mutex_, left);
    } else {
      std::vector<std::string> missing;
      for (uint32_t other = 0; other < seats_.size(); ++other) {
        if (seats_[other].state != State::kWaits) missing.push_back(NameOf(other));
      }
      Fail(absl::DeadlineExceededError(
          absl::StrCat(NameOf(replica), " has waited ", absl::FormatDuration(options_.timeout),
                       " in ", call_, " for ", absl::StrJoin(missing, ", "), ", ", Place())));
    }
  }
}

void ReplicaMeeting::Fail(const absl::Status& status) {
  if (failure_.ok()) failure_ = status;
  for (Seat& seat : seats_) {
    if (seat.state == State::kWaits) seat.state = State::kRuns;
  }
  changed_.NotifyAll();
}

void ReplicaMeeting::EndMeeting() {
  for (Seat& seat : seats_) {
    if (seat.state == State::kWaits) seat.state = State::kRuns;
  }
  ++meeting_;
  came_ = 0;
  changed_.NotifyAll();
}

void ReplicaMeeting::End(uint32_t replica, const absl::Status& status) {
  if (options_.in_turn) options_.turn_passed(replica);
  MutexLock lock(mutex_);
  seats_[replica].state = State::kEnded;
  if (!status.ok()) {
    Fail(absl::Status(status.code(), absl::StrCat(NameOf(replica), ": ", status.message())));
  } else if (came_ > 0) {
    Fail(absl::InvalidArgumentError(absl::StrCat(NameOf(replica), " has ended its step, but ",
                                                 NameOf(first_), " calls ", call_, ", ", Place())));
  }
  PassTurn(replica);
}

void ReplicaMeeting::PassTurn(uint32_t after) {
  if (!options_.in_turn) return;
  const auto count = static_cast<uint32_t>(seats_.size());
  for (uint32_t i = 1; i <= count; ++i) {
    const uint32_t next = (after + i) % count;
    if (seats_[next].state != State::kRuns) continue;
    turn_ = next;
    changed_.NotifyAll();
    return;
  }
}

void ReplicaMeeting::AwaitTurn(uint32_t replica) {
  while (options_.in_turn && turn_ != replica) changed_.Wait(mutex_);
}

absl::Status ReplicaMeeting::failure() const {
  MutexLock lock(mutex_);
  return failure_;
}

}  // namespace weir
