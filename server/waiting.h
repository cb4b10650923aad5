// SPDX-License-Identifier: Apache-2.0
// What waits in a store.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "rpc/parameter_endpoint.h"
#include "server/deadline_queue.h"
#include "server/held_pushes.h"
#include "server/parked_reply.h"
#include "server/push_header.h"
#include "server/snapshot.h"

namespace weir {

using CutDone = absl::AnyInvocable<void(absl::StatusOr<StoreSnapshot>) &&>;

// A pull of a step whose weights are not there yet.
struct WaitingPull {
  WorkerId worker{};
  uint32_t sync_group = 0;
  uint64_t step = 0;
  std::vector<SegmentTarget> segments;
  ParameterEndpoint::PullDone done;
  absl::optional<v1::PushOutcome> outcome{};  // of a PushPull (bounded_staleness)
};

// Pushes and pulls that wait, by an id that rises with arrival.
struct WaitingCalls {
  explicit WaitingCalls(uint64_t credit_bytes) : held(credit_bytes) {}

  uint64_t last_id = 0;
  DeadlineQueue deadlines;  // of a waiting cut too
  HeldPushes held;
  std::map<uint64_t, std::shared_ptr<ParkedReply>> parked;
  std::map<uint64_t, WaitingPull> pulls;
};

// Somebody who has asked for a cut that is not taken yet.
struct WaitingCut {
  uint64_t id = 0;  // among all that waits
  uint64_t cut = 0;
  CutDone done;
};

// A cut that is taken, and that nobody has asked for yet.
struct KeptCut {
  uint64_t cut = 0;
  absl::StatusOr<StoreSnapshot> snapshot;
};

}  // namespace weir
