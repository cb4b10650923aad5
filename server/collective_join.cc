// SPDX-License-Identifier: Apache-2.0
// How a call finds its meeting.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "rpc/collective_text.h"
#include "rpc/errors.h"
#include "server/collective_table.h"

namespace weir {
namespace {

// "... as collective 2 of step 17", where two members call different things.
absl::Status Mismatch(const MemberInfo& caller, const ReduceCall& call, const MemberInfo& other,
                      const ReduceCall& expected) {
  std::string called = TextOf(call.collective);
  std::string wanted = TextOf(expected.collective);
  const std::string place = PlaceText(call.step, call.ordinal);
  const std::string expected_place = PlaceText(expected.step, expected.ordinal);
  if (called == wanted &&
      place == expected_place) {  // the same in pieces of another size: no client of ours
    absl::StrAppend(&called, " from element ", call.first_element, " on ", call.count);
    absl::StrAppend(&wanted, " from element ", expected.first_element, " on ", expected.count);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      NameOf(caller), " calls ", called, place == expected_place ? "" : absl::StrCat(" as ", place),
      ", ", NameOf(other), " ", wanted, place == expected_place ? "," : "", " as ", expected_place,
      "; all replicas in sync must call the same collectives in the same order"));
}

// Of those who have come.
const MemberInfo& LowestRank(const Meeting& meeting) {
  return std::min_element(
             meeting.contributions.begin(), meeting.contributions.end(),
             [](const auto& a, const auto& b) { return a.member.rank < b.member.rank; })
      ->member;
}

bool IsSamePiece(const ReduceCall& a, const ReduceCall& b) {
  return a.step == b.step && a.ordinal == b.ordinal && a.piece == b.piece &&
         a.step_generation == b.step_generation;
}

}  // namespace

absl::StatusOr<CollectiveTable::MeetingRef> CollectiveTable::Join(
    const ReduceCall& call, uint64_t payload_bytes, absl::Time deadline,
    ParameterEndpoint::ReduceDone& done, Effects& effects) {
  WEIR_RETURN_IF_ERROR(CheckSender(call, payload_bytes));
  WEIR_RETURN_IF_ERROR(Proceed(call, effects));
  const MemberInfo& member = *members_->Find(call.worker);
  if (const MeetingRef own = FindOwn(call); own != nullptr) {
    WaitOrAnswer(*own, call.worker, deadline, done, effects);
    return nullptr;
  }
  if (const MeetingRef failed = FindUntold(call); failed != nullptr) {
    failed->untold.erase(call.worker);
    failed->may_repeat.insert(call.worker);
    failed->contributions.push_back({.member = member, .sequence = call.sequence});
    WaitOrAnswer(*failed, call.worker, deadline, done, effects);
    return nullptr;
  }
  WEIR_RETURN_IF_ERROR(CheckStepIsWhole(call));
  MeetingRef meeting = FindOpen(call, effects);
  if (meeting == nullptr) {
    WEIR_ASSIGN_OR_RETURN(meeting, Open(call));
  }
  absl::Status mismatch;
  if (!AreAlike(call, meeting->call)) {
    mismatch = Mismatch(member, call, LowestRank(*meeting), meeting->call);
  }
  meeting->contributions.push_back(
      {.member = member, .sequence = call.sequence, .weight = call.weight});
  WaitOrAnswer(*meeting, call.worker, deadline, done, effects);
  if (mismatch.ok()) return meeting;
  Fail(*meeting, std::move(mismatch), effects);
  DropFinished(effects);
  return nullptr;
}

absl::Status CollectiveTable::CheckSender(const ReduceCall& call, uint64_t payload_bytes) const {
  WEIR_RETURN_IF_ERROR(ended_);
  if (call.generation < generation_) return StaleView("generation", call.generation, generation_);
  const uint64_t needed = std::max(call.generation, call.step_generation);
  if (needed > generation_) return ViewNotYetKnown("generation", generation_, needed);
  const MemberInfo* const member = members_->Find(call.worker);
  if (member == nullptr) {
    return NotAMember(call.worker, "it has just left");
  }
  if (call.step < member->first_step) {
    return absl::FailedPreconditionError(
        absl::StrCat("the collectives of step ", call.step, " do not wait for ", NameOf(*member),
                     ", which counts from step ", member->first_step, " on"));
  }
  if (payload_bytes != call.BytesFrom(*member)) {
    return absl::InvalidArgumentError(absl::StrCat(
        PlaceText(call.step, call.ordinal), ", ", TextOf(call.collective), ", piece ", call.piece,
        ": the payload has ", payload_bytes, " bytes; ", call.BytesFrom(*member), " are expected"));
  }
  return absl::OkStatus();
}

// Notes how far the worker has come, and forgets what it can no longer ask for.
absl::Status CollectiveTable::Proceed(const ReduceCall& call, Effects& effects) {
  Progress& progress = progress_[call.worker];
  if (call.sequence < progress.sequence ||
      (call.sequence == progress.sequence && call.piece < progress.pieces_done)) {
    return absl::FailedPreconditionError(
        absl::StrCat("sequence ", call.sequence, ", piece ", call.piece,
                     " comes too late: its worker is at sequence ", progress.sequence));
  }
  if (call.sequence > progress.sequence) progress = {.sequence = call.sequence};
  progress.pieces_done = std::max(progress.pieces_done, call.pieces_done);
  for (const MeetingRef& meeting : meetings_) {
    const Meeting::Contribution* const own = std::as_const(*meeting).Find(call.worker);
    if (own == nullptr) continue;
    if (own->sequence < call.sequence || meeting->call.piece < progress.pieces_done) {
      meeting->may_repeat.erase(call.worker);
    }
  }
  DropFinished(effects);
  return absl::OkStatus();
}

absl::Status CollectiveTable::CheckStepIsWhole(const ReduceCall& call) const {
  if (call.opens_step()) return absl::OkStatus();
  if (call.step_generation < first_generation_) {
    return MemberLeft(absl::StrCat("step ", call.step, " began in generation ",
                                   call.step_generation, ", before this server knew the members"));
  }
  for (const Departure& departure : departures_) {
    if (departure.generation <= call.step_generation) continue;
    if (departure.member.first_step > call.step) continue;
    return MemberLeft(absl::StrCat(NameOf(departure.member), " has left within step ", call.step));
  }
  return absl::OkStatus();
}

CollectiveTable::MeetingRef CollectiveTable::FindOwn(const ReduceCall& call) const {
  for (const MeetingRef& meeting : meetings_) {
    if (meeting->call.piece != call.piece) continue;
    const Meeting::Contribution* const own = std::as_const(*meeting).Find(call.worker);
    if (own != nullptr && own->sequence == call.sequence) return meeting;
  }
  return nullptr;
}

CollectiveTable::MeetingRef CollectiveTable::FindUntold(const ReduceCall& call) const {
  for (const MeetingRef& meeting : meetings_) {
    if (!meeting->untold.contains(call.worker)) continue;
    if (meeting->call.piece == 0 ? call.piece == 0 : IsSamePiece(meeting->call, call)) {
      return meeting;
    }
  }
  return nullptr;
}

CollectiveTable::MeetingRef CollectiveTable::FindOpen(const ReduceCall& call, Effects& effects) {
  const auto found =
      std::find_if(meetings_.begin(), meetings_.end(), [&](const MeetingRef& meeting) {
        if (meeting->state != Meeting::State::kOpen) return false;
        return call.piece == 0 ? meeting->call.piece == 0 : IsSamePiece(meeting->call, call);
      });
  if (found == meetings_.end()) return nullptr;
  const MeetingRef meeting = *found;
  if (meeting->Find(call.worker) == nullptr) return meeting;
  // It has given up its former call, and calls anew.
  Withdraw(*meeting, call.worker, absl::AbortedError("its worker has called anew"), effects);
  if (!meeting->contributions.empty()) return meeting;
  DropFinished(effects);
  return nullptr;
}

// All the memory that it will need is reserved at once: else two that are half full could wait for
// each other.
absl::StatusOr<CollectiveTable::MeetingRef> CollectiveTable::Open(const ReduceCall& call) {
  auto meeting = std::make_shared<Meeting>(call);
  const uint64_t members = meeting->Missing(*members_).size();
  const std::string what =
      absl::StrCat(PlaceText(call.step, call.ordinal), ", ", TextOf(call.collective));
  const uint64_t kept = call.gathers() ? members * call.bytes() : call.bytes();
  const bool broadcast = call.collective.op() == v1::REDUCE_OP_BROADCAST;
  const uint64_t more = call.gathers() || broadcast ? 0 : members * call.bytes();
  for (const uint64_t bytes : {kept, more}) {
    WEIR_ASSIGN_OR_RETURN(MemoryBudget::Reservation reservation,
                          options_.budget->Reserve(what, bytes));
    meeting->reservations.push_back(std::move(reservation));
  }
  meetings_.push_back(meeting);
  return meeting;
}

void CollectiveTable::WaitOrAnswer(Meeting& meeting, WorkerId worker, absl::Time deadline,
                                   ParameterEndpoint::ReduceDone& done, Effects& effects) {
  if (meeting.state == Meeting::State::kDone) {
    effects.push_back([result = meeting.result, done = std::move(done)]() mutable {
      std::move(done)(result->Reply());
    });
    return;
  }
  const uint64_t id = ++last_id_;
  meeting.waiting.push_back({.id = id, .worker = worker, .done = std::move(done)});
  if (deadline < absl::InfiniteFuture() && deadlines_.Add(id, deadline)) ArmTimer(deadline);
}

}  // namespace weir
