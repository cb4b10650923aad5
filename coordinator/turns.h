// SPDX-License-Identifier: Apache-2.0
// Coordinator's turns, for its own source files.
#pragma once

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/coordinator.h"

namespace weir {

template <typename Fn>
void Coordinator::InTurn(Fn fn) {
  MutexLock lock(mutex_);
  turn_thread_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  Turn turn(options_.clock->Now(), options_.clock->WallNow());
  fn(turn);
  for (auto& [run, job] : jobs_) job->Finish(turn);
  // Under the lock, so that turns are carried out in the order in which they were taken.
  outbox_->Add(std::move(turn));
  turn_thread_.store(std::thread::id(), std::memory_order_relaxed);
}

template <typename Reply, typename Fn>
void Coordinator::InJob(uint64_t run_id, Done<Reply> done, Fn fn) {
  InTurn([&](Turn& turn) {
    AssertInTurn();
    const auto found = jobs_.find(run_id);
    absl::StatusOr<Reply> reply = absl::NotFoundError(
        absl::StrCat("no run ", absl::Hex(run_id, absl::kZeroPad16), "; register again"));
    if (found != jobs_.end()) reply = fn(*found->second, turn);
    AnswerLater<Reply>(turn, std::move(done), std::move(reply));
  });
}

inline absl::Status Stopping() {
  return absl::UnavailableError("the coordinator is shutting down; try again");
}

// An RPC without results: OK becomes an empty reply.
template <typename Reply>
absl::StatusOr<Reply> OrEmpty(const absl::Status& status) {
  if (!status.ok()) return status;
  return Reply();
}

}  // namespace weir
