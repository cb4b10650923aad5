// SPDX-License-Identifier: Apache-2.0
// What becomes of meetings: contributions, ends, members, deadlines.
#include "server/collective_table.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/collective_text.h"
#include "rpc/errors.h"
#include "server/value_check.h"

namespace weir {
namespace {

void Run(CollectiveTable::Effects& effects) {
  for (Task& effect : std::exchange(effects, {})) std::move(effect)();
}

std::string CallText(const ReduceCall& call) {
  return absl::StrCat(PlaceText(call.step, call.ordinal), ", ", TextOf(call.collective),
                      call.piece == 0 ? "" : absl::StrCat(", piece ", call.piece));
}

BufferRef CopyOf(const Payload& payload, BufferPool& pool) {
  BufferRef copy = pool.Allocate(payload.size());
  if (!copy) return copy;
  std::byte* to = copy.mutable_data();
  for (const Payload::Slice& slice : payload.slices()) {
    if (slice.size == 0) continue;
    std::memcpy(to, slice.data, slice.size);
    to += slice.size;
  }
  return copy;
}

}  // namespace

void CollectiveTable::Reduce(const ReduceCall& call, Payload payload, absl::Time deadline,
                             ParameterEndpoint::ReduceDone done) {
  Effects effects;
  absl::StatusOr<MeetingRef> joined;
  {
    MutexLock lock(mutex_);
    joined = Join(call, payload.size(), deadline, done, effects);
  }
  if (!joined.ok()) std::move(done)(joined.status());
  Run(effects);
  if (joined.ok() && *joined != nullptr) Bring(*joined, call, payload);
}

// The bytes of a contribution that has been admitted.
void CollectiveTable::Bring(const MeetingRef& meeting, const ReduceCall& call,
                            const Payload& payload) {
  BufferRef values = CopyOf(payload, *options_.pool);
  const bool is_bool = call.collective.dtype() == v1::DTYPE_BOOL;
  const size_t bad = values && is_bool ? FirstNotBool(values.data(), values.size()) : values.size();
  Effects effects;
  {
    MutexLock lock(mutex_);
    Meeting::Contribution* const own = meeting->Find(call.worker);
    if (meeting->state != Meeting::State::kOpen || own == nullptr ||
        own->sequence != call.sequence) {
      return;  // it has failed meanwhile, or its worker has called anew
    }
    if (!values) {
      Withdraw(*meeting, call.worker,
               absl::ResourceExhaustedError("the system has no memory for a collective"), effects);
    } else if (bad < values.size()) {
      Fail(*meeting,
           absl::InvalidArgumentError(
               absl::StrCat(CallText(call), ": element ", call.first_element + bad, " from ",
                            NameOf(own->member), " is neither 0 nor 1, but the dtype is bool")),
           effects);
    } else {
      own->values = std::move(values);
      own->is_here = true;
      CloseIfAllAreHere(meeting, effects);
    }
    DropFinished(effects);
  }
  Run(effects);
}

void CollectiveTable::CloseIfAllAreHere(const MeetingRef& meeting, Effects& effects) {
  if (meeting->state != Meeting::State::kOpen || meeting->contributions.empty() ||
      !meeting->Missing(*members_).empty()) {
    return;
  }
  meeting->state = Meeting::State::kCombining;
  meeting->generation = generation_;
  effects.push_back([self = shared_from_this(), meeting] { self->Close(meeting); });
}

void CollectiveTable::Close(const MeetingRef& meeting) {
  std::shared_ptr<const MeetingResult> result =
      Combine(*meeting, options_.payload_bytes, *options_.pool);
  Effects effects;
  {
    MutexLock lock(mutex_);
    Settle(*meeting, std::move(result), effects);
    DropFinished(effects);
  }
  Run(effects);
}

void CollectiveTable::Settle(Meeting& meeting, std::shared_ptr<const MeetingResult> result,
                             Effects& effects) {
  meeting.state = Meeting::State::kDone;
  meeting.result = std::move(result);
  for (Meeting::Waiting& waiting : std::exchange(meeting.waiting, {})) {
    deadlines_.Remove(waiting.id);
    effects.push_back([result = meeting.result, done = std::move(waiting.done)]() mutable {
      std::move(done)(result->Reply());
    });
  }
  std::vector<BufferRef> unused;  // goes without the lock, as does what was reserved for it
  for (Meeting::Contribution& contribution : meeting.contributions) {
    unused.push_back(std::move(contribution.values));
    // Whoever has left meanwhile cannot ask.
    const WorkerId worker = contribution.member.worker;
    if (members_->Find(worker) != nullptr) meeting.may_repeat.insert(worker);
  }
  std::vector<MemoryBudget::Reservation> spare = std::exchange(meeting.reservations, {});
  if (meeting.result->status.ok()) {  // the result's own stays
    meeting.reservations.push_back(std::move(spare.front()));
  }
  effects.push_back([unused = std::move(unused), spare = std::move(spare)] {});
}

void CollectiveTable::Fail(Meeting& meeting, absl::Status why, Effects& effects) {
  if (absl::IsInvalidArgument(why)) {  // of the program: also those who still come shall know
    for (const MemberInfo& member : members_->by_rank()) {
      if (member.first_step > meeting.call.step) continue;
      if (meeting.Find(member.worker) == nullptr) meeting.untold.insert(member.worker);
    }
  }
  auto result = std::make_shared<MeetingResult>();
  result->status = std::move(why);
  Settle(meeting, std::move(result), effects);
}

void CollectiveTable::SetMembers(std::shared_ptr<const MemberSet> members, uint64_t generation,
                                 Effects& effects) {
  MutexLock lock(mutex_);
  if (!ended_.ok()) return;
  const std::shared_ptr<const MemberSet> before = std::exchange(members_, std::move(members));
  generation_ = generation;
  if (first_generation_ == 0) first_generation_ = generation;
  for (const MemberInfo& member : before->by_rank()) {
    if (members_->Find(member.worker) == nullptr) Leave(member, effects);
  }
  for (const MeetingRef& meeting : meetings_) CloseIfAllAreHere(meeting, effects);
  DropFinished(effects);
}

void CollectiveTable::Leave(const MemberInfo& member, Effects& effects) {
  departures_.push_back({.member = member, .generation = generation_});
  progress_.erase(member.worker);
  const absl::Status gone = NotAMember(member.worker, "its lease has ended, or it has left");
  for (const MeetingRef& meeting : meetings_) {
    AnswerWaiting(*meeting, member.worker, gone, effects);
    meeting->may_repeat.erase(member.worker);
    meeting->untold.erase(member.worker);
    if (meeting->state != Meeting::State::kOpen || member.first_step > meeting->call.step) continue;
    if (meeting->call.opens_step() && meeting->Find(member.worker) == nullptr) continue;
    Fail(*meeting,
         MemberLeft(absl::StrCat(NameOf(member), " has left within ", CallText(meeting->call))),
         effects);
  }
}

void CollectiveTable::Withdraw(Meeting& meeting, WorkerId worker, const absl::Status& why,
                               Effects& effects) {
  AnswerWaiting(meeting, worker, why, effects);
  const auto own = std::find_if(meeting.contributions.begin(), meeting.contributions.end(),
                                [&](const auto& one) { return one.member.worker == worker; });
  if (own == meeting.contributions.end()) return;
  effects.push_back([values = std::move(own->values)] {});
  meeting.contributions.erase(own);
}

void CollectiveTable::AnswerWaiting(Meeting& meeting, WorkerId worker, const absl::Status& why,
                                    Effects& effects) {
  for (auto waiting = meeting.waiting.begin(); waiting != meeting.waiting.end();) {
    if (waiting->worker != worker) {
      ++waiting;
      continue;
    }
    deadlines_.Remove(waiting->id);
    effects.push_back([done = std::move(waiting->done), why]() mutable { std::move(done)(why); });
    waiting = meeting.waiting.erase(waiting);
  }
}

void CollectiveTable::DropFinished(Effects& effects) {
  const auto is_needed = [](const MeetingRef& meeting) {
    switch (meeting->state) {
      case Meeting::State::kOpen:
        return !meeting->contributions.empty();
      case Meeting::State::kCombining:
        return true;
      default:
        return !meeting->may_repeat.empty() || !meeting->untold.empty();
    }
  };
  const auto finished = std::stable_partition(meetings_.begin(), meetings_.end(), is_needed);
  if (finished == meetings_.end()) return;
  effects.push_back([gone = std::vector<MeetingRef>(std::make_move_iterator(finished),
                                                    std::make_move_iterator(meetings_.end()))] {});
  meetings_.erase(finished, meetings_.end());
}

void CollectiveTable::End(const absl::Status& why, Effects& effects) {
  MutexLock lock(mutex_);
  if (!ended_.ok()) return;
  ended_ = why;
  for (const MeetingRef& meeting : meetings_) {
    for (Meeting::Waiting& waiting : std::exchange(meeting->waiting, {})) {
      deadlines_.Remove(waiting.id);
      effects.push_back([done = std::move(waiting.done), why]() mutable { std::move(done)(why); });
    }
  }
  effects.push_back([gone = std::exchange(meetings_, {})] {});
}

void CollectiveTable::ArmTimer(absl::Time due) {
  options_.executor->RunAfter(std::max(due - options_.clock->Now(), absl::ZeroDuration()),
                              [weak = weak_from_this(), due] {
                                if (const auto table = weak.lock()) table->OnDeadline(due);
                              });
}

void CollectiveTable::OnDeadline(absl::Time armed_for) {
  Effects effects;
  {
    MutexLock lock(mutex_);
    for (const uint64_t id : deadlines_.TakeDue(armed_for, options_.clock->Now())) {
      Expire(id, effects);
    }
    const absl::Time next = deadlines_.TakeNext();
    if (next < absl::InfiniteFuture()) ArmTimer(next);
  }
  Run(effects);
}

// The contribution stays: the caller repeats its call as long as it likes to wait.
void CollectiveTable::Expire(uint64_t id, Effects& effects) {
  for (const MeetingRef& meeting : meetings_) {
    const auto waiting = std::find_if(meeting->waiting.begin(), meeting->waiting.end(),
                                      [&](const auto& one) { return one.id == id; });
    if (waiting == meeting->waiting.end()) continue;
    const std::vector<MemberInfo> missing = meeting->Missing(*members_);
    const absl::Status late = absl::DeadlineExceededError(
        absl::StrCat(CallText(meeting->call), ", waits for ",
                     missing.empty() ? "its sum, which is being made" : NamesOf(missing)));
    effects.push_back([done = std::move(waiting->done), late]() mutable { std::move(done)(late); });
    meeting->waiting.erase(waiting);
    return;
  }
}

}  // namespace weir
