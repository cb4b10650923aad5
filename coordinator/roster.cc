// SPDX-License-Identifier: Apache-2.0
#include "coordinator/roster.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "rpc/errors.h"

namespace weir {
namespace {

constexpr size_t kMostDeparted = 1000;
constexpr int kForgetAfter = 10;  // leases: who has not asked for so long is gone

}  // namespace

absl::Status CheckRank(int32_t wanted, uint32_t ranks) {
  if (wanted < 0 || static_cast<uint32_t>(wanted) < ranks) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("rank ", wanted, ": the job has ranks 0 to ", ranks - 1));
}

void Roster::Load(const v1::JobRecord& record, absl::Time now) {
  for (const v1::WorkerRecord& worker : record.workers()) {
    workers_[WorkerId{worker.worker()}] = {.id = WorkerId{worker.worker()},
                                           .rank = worker.rank(),
                                           .host = worker.host(),
                                           .joining = worker.joining(),
                                           .last_heard = now,
                                           .lease_end = now + options_.lease,
                                           .progressed = now,
                                           .step = worker.step(),
                                           .progress = worker.progress()};
  }
  for (const v1::Member& member : record.view().members()) {
    const auto found = workers_.find(WorkerId{member.worker()});
    if (found != workers_.end()) found->second.first_step = member.first_step();
  }
  for (const v1::DepartedRecord& departed : record.departed()) {
    departed_[WorkerId{departed.worker()}] = departed.why();
    departed_order_.push_back(WorkerId{departed.worker()});
  }
  highest_step_ = std::max(record.highest_step(), record.view().resume().step());
  departed_examples_ = record.departed_examples();
  departed_late_pushes_ = record.departed_late_pushes();
}

void Roster::Save(v1::JobRecord& record) const {
  for (const auto& [id, worker] : workers_) {
    v1::WorkerRecord& saved = *record.add_workers();
    saved.set_worker(static_cast<uint64_t>(id));
    saved.set_rank(worker.rank);
    saved.set_host(worker.host);
    saved.set_joining(worker.joining);
    saved.set_step(worker.step);
    *saved.mutable_progress() = worker.progress;
  }
  for (const WorkerId id : departed_order_) {
    v1::DepartedRecord& saved = *record.add_departed();
    saved.set_worker(static_cast<uint64_t>(id));
    saved.set_why(departed_.at(id));
  }
  record.set_highest_step(highest_step_);
  record.set_departed_examples(departed_examples_);
  record.set_departed_late_pushes(departed_late_pushes_);
}

absl::Time Roster::FirstAsked(WorkerId worker, absl::Time now) {
  for (auto asked = asked_.begin(); asked != asked_.end();) {
    const bool forgotten = now - asked->second > kForgetAfter * options_.lease;
    asked = forgotten ? asked_.erase(asked) : std::next(asked);
  }
  return asked_.emplace(worker, now).first->second;
}

absl::Status Roster::MayBeDead(const Worker& holder, absl::Time now) const {
  return absl::UnavailableError(absl::StrCat(
      Describe(holder.id), " has been silent for ", absl::FormatDuration(now - holder.last_heard),
      "; its rank is free when its lease ends, in ", absl::FormatDuration(holder.lease_end - now)));
}

absl::Status Roster::CheckAllLive(WorkerId newcomer, absl::Time now) {
  const absl::Time since = FirstAsked(newcomer, now);
  for (const auto& [id, worker] : workers_) {
    if (worker.last_heard <= since) return MayBeDead(worker, now);
  }
  return absl::OkStatus();
}

absl::Status Roster::CheckAnyOtherLives(WorkerId leaver, absl::Time now) {
  const absl::Time since = FirstAsked(leaver, now);
  absl::Status silent;
  for (const auto& [id, worker] : workers_) {
    if (id == leaver) continue;
    if (worker.last_heard > since) {
      silent = absl::OkStatus();
      break;
    }
    silent = MayBeDead(worker, now);
  }
  if (silent.ok()) asked_.erase(leaver);
  return silent;
}

// A holder that lives says so within a heartbeat; until then nobody knows.
absl::Status Roster::Taken(const Worker& holder, absl::Time since, absl::Time now) const {
  if (holder.last_heard <= since) return MayBeDead(holder, now);
  return absl::FailedPreconditionError(
      absl::StrCat("rank ", holder.rank, " is taken by ", holder.host, ", which is alive"));
}

absl::StatusOr<uint32_t> Roster::ChooseRank(int32_t wanted_rank, absl::Time since,
                                            absl::Time now) const {
  std::vector<const Worker*> holders(options_.ranks, nullptr);
  for (const auto& [id, worker] : workers_) holders[worker.rank] = &worker;
  if (wanted_rank >= 0) {
    WEIR_RETURN_IF_ERROR(CheckRank(wanted_rank, options_.ranks));
    if (holders[wanted_rank] != nullptr) return Taken(*holders[wanted_rank], since, now);
    return static_cast<uint32_t>(wanted_rank);
  }
  const auto free = std::find(holders.begin(), holders.end(), nullptr);
  if (free != holders.end()) return static_cast<uint32_t>(free - holders.begin());
  for (const Worker* holder : holders) {
    const absl::Status taken = Taken(*holder, since, now);
    if (absl::IsUnavailable(taken)) return taken;
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the job has all of its ", options_.ranks, " workers"));
}

absl::StatusOr<uint32_t> Roster::Add(WorkerId worker, int32_t wanted_rank, const std::string& host,
                                     absl::Time now) {
  const auto known = workers_.find(worker);
  if (known != workers_.end()) {
    known->second.last_heard = now;
    known->second.lease_end = now + options_.lease;
    return known->second.rank;
  }
  const auto departed = departed_.find(worker);
  if (departed != departed_.end()) return NotAMember(worker, departed->second);
  WEIR_ASSIGN_OR_RETURN(const uint32_t rank, ChooseRank(wanted_rank, FirstAsked(worker, now), now));
  asked_.erase(worker);
  workers_[worker] = {.id = worker,
                      .rank = rank,
                      .host = host,
                      .last_heard = now,
                      .lease_end = now + options_.lease,
                      .progressed = now};
  return rank;
}

void Roster::Advance(Worker& worker, uint64_t step, absl::Time now) {
  if (step <= worker.step) return;
  worker.step = step;
  worker.progressed = now;
  highest_step_ = std::max(highest_step_, step);
}

absl::Status Roster::Heartbeat(WorkerId worker, uint64_t step, absl::Time now) {
  WEIR_RETURN_IF_ERROR(Check(worker));
  Worker& found = workers_[worker];
  found.last_heard = now;
  found.lease_end = now + options_.lease;
  Advance(found, step, now);
  return absl::OkStatus();
}

void Roster::Report(WorkerId worker, const v1::Progress& progress, absl::Time now) {
  const auto found = workers_.find(worker);
  if (found == workers_.end()) return;
  // Reports may overtake one another.
  if (progress.examples() < found->second.progress.examples()) return;
  found->second.progress = progress;
  Advance(found->second, progress.step(), now);
}

void Roster::Touch(WorkerId worker, absl::Time now) {
  const auto found = workers_.find(worker);
  if (found != workers_.end()) found->second.progressed = now;
}

void Roster::Remove(WorkerId worker, const std::string& why) {
  const auto found = workers_.find(worker);
  if (found == workers_.end()) return;
  departed_examples_ += found->second.progress.examples();
  departed_late_pushes_ += found->second.progress.late_pushes();
  workers_.erase(found);
  asked_.erase(worker);
  if (departed_.emplace(worker, why).second) departed_order_.push_back(worker);
  if (departed_order_.size() > kMostDeparted) {
    departed_.erase(departed_order_.front());
    departed_order_.erase(departed_order_.begin());
  }
}

void Roster::Extend(absl::Duration deaf) {
  for (auto& [id, worker] : workers_) {
    worker.lease_end += deaf;
    worker.progressed += deaf;
  }
}

void Roster::SetJoining(WorkerId worker) {
  const auto found = workers_.find(worker);
  if (found != workers_.end()) found->second.joining = true;
}

void Roster::Admit(WorkerId worker, uint64_t first_step) {
  const auto found = workers_.find(worker);
  if (found == workers_.end()) return;
  found->second.joining = false;
  found->second.first_step = first_step;
}

void Roster::StartAttempt(uint64_t step, absl::Time now) {
  highest_step_ = step;
  departed_examples_ = 0;
  departed_late_pushes_ = 0;
  for (auto& [id, worker] : workers_) {
    worker.step = step;
    worker.first_step = step;
    worker.progressed = now;
    worker.progress.Clear();
  }
}

absl::Status Roster::Check(WorkerId worker) const {
  if (workers_.count(worker) > 0) return absl::OkStatus();
  const auto departed = departed_.find(worker);
  if (departed != departed_.end()) return NotAMember(worker, departed->second);
  return absl::NotFoundError(
      absl::StrCat("worker ", absl::Hex(static_cast<uint64_t>(worker), absl::kZeroPad16),
                   " has not registered with this job"));
}

const Roster::Worker* Roster::Find(WorkerId worker) const {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? nullptr : &found->second;
}

std::vector<const Roster::Worker*> Roster::Members() const {
  std::vector<const Worker*> members;
  for (const auto& [id, worker] : workers_) {
    if (!worker.joining) members.push_back(&worker);
  }
  std::sort(members.begin(), members.end(),
            [](const Worker* a, const Worker* b) { return a->rank < b->rank; });
  return members;
}

std::vector<const Roster::Worker*> Roster::MembersAt(uint64_t step) const {
  const std::vector<const Worker*> members = Members();
  if (step == 0) return members;
  std::vector<const Worker*> counted;
  for (const Worker* member : members) {
    if (member->first_step < step) counted.push_back(member);
  }
  return counted.empty() ? members : counted;
}

std::vector<WorkerId> Roster::Joining() const {
  std::vector<WorkerId> joining;
  for (const auto& [id, worker] : workers_) {
    if (worker.joining) joining.push_back(id);
  }
  return joining;
}

std::string Roster::Describe(WorkerId worker) const {
  const Worker* found = Find(worker);
  if (found == nullptr)
    return absl::StrCat("worker ", absl::Hex(static_cast<uint64_t>(worker), absl::kZeroPad16));
  return absl::StrCat("rank ", found->rank, " (", found->host, ")");
}

std::vector<WorkerId> Roster::Expired(absl::Time now) const {
  std::vector<WorkerId> expired;
  for (const auto& [id, worker] : workers_) {
    if (now >= worker.lease_end) expired.push_back(id);
  }
  return expired;
}

std::vector<WorkerId> Roster::Stuck(absl::Time now, absl::Duration timeout) const {
  uint64_t furthest_behind = std::numeric_limits<uint64_t>::max();
  for (const Worker* worker : Members()) furthest_behind = std::min(furthest_behind, worker->step);
  std::vector<WorkerId> stuck;
  for (const Worker* worker : Members()) {
    if (now - worker->progressed >= timeout && worker->step == furthest_behind) {
      stuck.push_back(worker->id);
    }
  }
  return stuck;
}

uint64_t Roster::lowest_step() const {
  const std::vector<const Worker*> members = Members();
  if (members.empty()) return 0;
  uint64_t lowest = std::numeric_limits<uint64_t>::max();
  for (const Worker* member : members) lowest = std::min(lowest, StepOf(*member));
  return lowest;
}

uint64_t Roster::late_pushes() const {
  uint64_t late = departed_late_pushes_;
  for (const auto& [id, worker] : workers_) late += worker.progress.late_pushes();
  return late;
}

uint64_t Roster::examples() const {
  uint64_t examples = departed_examples_;
  for (const auto& [id, worker] : workers_) examples += worker.progress.examples();
  return examples;
}

}  // namespace weir
