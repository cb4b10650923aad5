// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/executor.h"
#include "coordinator/state_store.h"
#include "google/protobuf/message_lite.h"

namespace weir {

// One locked turn of the coordinator: it changes the state in memory, and notes what is to be kept
// and what is to be done when that is durable (answers, views, calls to servers), in this order.
// The Outbox carries it out after the lock. Used from one thread.
class Turn {
 public:
  Turn(absl::Time now, absl::Time wall_now) : now_(now), wall_now_(wall_now) {}

  absl::Time now() const { return now_; }
  absl::Time wall_now() const { return wall_now_; }

  void Put(std::string key, const google::protobuf::MessageLite& record) {
    changes_[std::move(key)] = record.SerializeAsString();
  }
  void Erase(std::string key) { changes_[std::move(key)] = absl::nullopt; }
  // `effect` must not block for long. Effects of all turns run one after another.
  void Later(Task effect) { effects_.push_back(std::move(effect)); }

 private:
  friend class Outbox;
  absl::Time now_;
  absl::Time wall_now_;
  StateChanges changes_;
  std::vector<Task> effects_;
};

// Answers a call when what the turn has changed is durable.
template <typename Reply>
void AnswerLater(Turn& turn, absl::AnyInvocable<void(absl::StatusOr<Reply>) &&> done,
                 absl::StatusOr<Reply> reply) {
  turn.Later([done = std::move(done), reply = std::move(reply)]() mutable {
    std::move(done)(std::move(reply));
  });
}

}  // namespace weir
