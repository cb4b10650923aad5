// SPDX-License-Identifier: Apache-2.0
#include "coordinator/barrier_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace weir {

void BarrierTable::Load(const v1::JobRecord& record) {
  complete_.assign(record.barriers().begin(), record.barriers().end());
}

void BarrierTable::Save(v1::JobRecord& record) const {
  for (const v1::BarrierRecord& barrier : complete_) *record.add_barriers() = barrier;
}

const v1::BarrierReply* BarrierTable::FindResult(const std::string& name) const {
  for (const v1::BarrierRecord& barrier : complete_) {
    if (barrier.name() == name) return &barrier.result();
  }
  return nullptr;
}

// Whoever might still ask for the oldest has entered so many others since that it cannot.
void BarrierTable::KeepResult(const std::string& name, v1::BarrierReply result) {
  v1::BarrierRecord& barrier = complete_.emplace_back();
  barrier.set_name(name);
  *barrier.mutable_result() = std::move(result);
  if (complete_.size() > kMostKept) complete_.pop_front();
}

bool BarrierTable::Enter(const v1::BarrierRequest& request, absl::Time deadline, Done done,
                         const Roster& roster, Turn& turn) {
  if (const v1::BarrierReply* result = FindResult(request.name()); result != nullptr) {
    AnswerLater<v1::BarrierReply>(turn, std::move(done), *result);
    return false;
  }
  if (open_.size() >= kMostOpen && open_.count(request.name()) == 0) {
    AnswerLater<v1::BarrierReply>(
        turn, std::move(done),
        absl::ResourceExhaustedError(absl::StrCat("barrier '", request.name(), "': ", kMostOpen,
                                                  " others of this job are open")));
    return false;
  }
  const auto [entry, first] = open_.try_emplace(request.name());
  Barrier& barrier = entry->second;
  barrier.step = first ? request.step() : std::min(barrier.step, request.step());
  const WorkerId worker{request.worker()};
  barrier.entered.try_emplace(worker, request.values().begin(), request.values().end());
  barrier.calls.push_back({worker, deadline, std::move(done)});
  return CompleteIfFull(request.name(), roster, turn);
}

bool BarrierTable::CompleteIfFull(const std::string& name, const Roster& roster, Turn& turn) {
  Barrier& barrier = open_[name];
  v1::BarrierReply result;
  for (const Roster::Worker* member : roster.MembersAt(barrier.step)) {
    const auto entered = barrier.entered.find(member->id);
    if (entered == barrier.entered.end()) return false;
    for (const auto& [key, value] : entered->second) (*result.mutable_sums())[key] += value;
    result.set_members(result.members() + 1);
  }
  if (result.members() == 0) return false;
  for (Call& call : barrier.calls)
    AnswerLater<v1::BarrierReply>(turn, std::move(call.done), result);
  KeepResult(name, std::move(result));
  open_.erase(name);
  return true;
}

bool BarrierTable::Evaluate(const Roster& roster, Turn& turn) {
  std::vector<std::string> names;
  for (auto& [name, barrier] : open_) {
    names.push_back(name);
    const auto gone = std::stable_partition(
        barrier.calls.begin(), barrier.calls.end(),
        [&](const Call& call) { return roster.Find(call.worker) != nullptr; });
    for (auto call = gone; call != barrier.calls.end(); ++call) {
      AnswerLater<v1::BarrierReply>(turn, std::move(call->done), roster.Check(call->worker));
    }
    barrier.calls.erase(gone, barrier.calls.end());
  }
  bool changed = false;
  for (const std::string& name : names) changed |= CompleteIfFull(name, roster, turn);
  return changed;
}

std::string BarrierTable::Missing(const Barrier& barrier, const Roster& roster) {
  std::vector<std::string> missing;
  for (const Roster::Worker* member : roster.MembersAt(barrier.step)) {
    if (barrier.entered.count(member->id) == 0) missing.push_back(roster.Describe(member->id));
  }
  return absl::StrJoin(missing, ", ");
}

void BarrierTable::Expire(const Roster& roster, Turn& turn) {
  for (auto& [name, barrier] : open_) {
    const auto due =
        std::stable_partition(barrier.calls.begin(), barrier.calls.end(),
                              [&](const Call& call) { return call.deadline > turn.now(); });
    for (auto call = due; call != barrier.calls.end(); ++call) {
      AnswerLater<v1::BarrierReply>(
          turn, std::move(call->done),
          absl::DeadlineExceededError(
              absl::StrCat("barrier '", name, "' still waits for ", Missing(barrier, roster))));
    }
    barrier.calls.erase(due, barrier.calls.end());
  }
}

void BarrierTable::Clear(const absl::Status& why, Turn& turn) {
  for (auto& [name, barrier] : open_) {
    for (Call& call : barrier.calls) AnswerLater<v1::BarrierReply>(turn, std::move(call.done), why);
  }
  open_.clear();
  complete_.clear();
}

bool BarrierTable::IsWaiting(WorkerId worker) const {
  for (const auto& [name, barrier] : open_) {
    for (const Call& call : barrier.calls) {
      if (call.worker == worker) return true;
    }
  }
  return false;
}

}  // namespace weir
