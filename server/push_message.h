// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "common/executor.h"
#include "rpc/parameter_endpoint.h"
#include "server/parked_reply.h"
#include "server/push_header.h"
#include "server/sequence_tracker.h"

namespace weir {

// Who asked: a Push wants to know what became of it, a PushPull weights too. One of the two is set.
struct PushReplyTo {
  ParameterEndpoint::PushDone push;
  ParameterEndpoint::PullDone pull;

  bool wants_weights() const { return static_cast<bool>(pull); }
  void Fail(const absl::Status& status) && {
    if (pull) {
      std::move(pull)(status);
    } else {
      std::move(push)(status);
    }
  }
};

// A push on its way through the store: checked, perhaps held, then applied.
struct PushMessage {
  PushHeader header;
  std::vector<SegmentTarget> segments;
  Payload payload;
  absl::Time deadline;
  PushReplyTo reply;
  // Set when it is admitted. Shared: its worker may leave meanwhile.
  std::shared_ptr<SequenceTracker> tracker;
  std::shared_ptr<ParkedReply> parked;  // sync PushPull: has taken the reply over
};

// What a change of the store's state brings about, collected under its lock and done without it.
struct StoreEffects {
  std::vector<Task> replies;
  std::deque<std::unique_ptr<PushMessage>> ready;  // admitted, to be applied
  bool members_left = false;                       // open steps wait for fewer members now

  void Fail(std::unique_ptr<PushMessage> message, const absl::Status& status) {
    replies.push_back([message = std::move(message), status]() mutable {
      std::move(message->reply).Fail(status);
    });
  }
};

}  // namespace weir
